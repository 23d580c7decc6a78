//===- GroupedMatmul.cpp - Matmuls in f64 ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The order of the sum is part of the semantics (G3), so the loop over the
// contraction is sequential, and the columns of the result are what runs in
// parallel:
//
//   for each block of kRows rows:  widen the rows of A to f64
//     for each tile of kLanes columns:  widen the columns of B to f64
//       for each row:  kLanes sums side by side, in ascending order
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "OpLowering.h"
#include "Scaling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Columns summed side by side: eight SSE registers.
static constexpr int64_t kLanes = 16;
/// Rows of A that stay widened while the columns of B pass by.
static constexpr int64_t kRows = 32;

namespace {

/// One matmul of a group: result(row, column) = sum of a(row, k) * b(k, column)
/// over k in [contractionBegin, contractionEnd).
struct MatmulProblem {
  Value rowBegin, rowEnd, columns, contractionBegin, contractionEnd;
  function_ref<Value(Value row, Value k)> loadA;
  function_ref<Value(Value k, Value column)> loadB;
  /// Scales, rounds and stores one f64 sum.
  function_ref<void(Value row, Value column, Value sum)> store;
};

class MatmulBuilder {
public:
  /// `contraction` is the longest contraction of any group.
  MatmulBuilder(LoopBuilder &b, Value contraction)
      : b(b), vectorType(VectorType::get(kLanes, b.getF64Type())) {
    auto allocate = [&](OpFoldResult rows, OpFoldResult cols) -> Value {
      return memref::AllocOp::create(b, ArrayRef<OpFoldResult>{rows, cols},
                                     b.getF64Type());
    };
    OpFoldResult length = getAsOpFoldResult(contraction);
    panelA = allocate(b.getIndexAttr(kRows), length);
    panelB = allocate(length, b.getIndexAttr(kLanes));
  }

  void multiply(const MatmulProblem &p) {
    Value zero = b.index(0);
    Value length = b.sub(p.contractionEnd, p.contractionBegin);
    Value rows = b.sub(p.rowEnd, p.rowBegin);
    b.forEach(zero, b.ceilDiv(rows, kRows), [&](Value block) {
      Value row = b.add(p.rowBegin, b.mul(block, kRows));
      Value height = b.min(b.index(kRows), b.sub(p.rowEnd, row));
      widenRows(p, row, height, length);
      b.forEach(zero, b.ceilDiv(p.columns, kLanes), [&](Value tile) {
        Value column = b.mul(tile, kLanes);
        Value width = b.min(b.index(kLanes), b.sub(p.columns, column));
        widenColumns(p, column, width, length);
        b.forEach(zero, height, [&](Value i) {
          Value sums = sum(i, length);
          b.forEach(zero, width, [&](Value j) {
            Value one = vector::ExtractOp::create(b, sums, j);
            p.store(b.add(row, i), b.add(column, j), one);
          });
        });
      });
    });
  }

private:
  void widenRows(const MatmulProblem &p, Value row, Value height,
                 Value length) {
    b.forEach(b.index(0), height, [&](Value i) {
      b.forEach(b.index(0), length, [&](Value k) {
        Value a = p.loadA(b.add(row, i), b.add(p.contractionBegin, k));
        memref::StoreOp::create(b, toF64(a), panelA, ValueRange{i, k});
      });
    });
  }

  /// Lanes without a column get zeros.
  void widenColumns(const MatmulProblem &p, Value column, Value width,
                    Value length) {
    b.forEach(b.index(0), width, [&](Value j) {
      b.forEach(b.index(0), length, [&](Value k) {
        Value x = p.loadB(b.add(p.contractionBegin, k), b.add(column, j));
        memref::StoreOp::create(b, toF64(x), panelB, ValueRange{k, j});
      });
    });
    b.forEach(width, b.index(kLanes), [&](Value j) {
      b.forEach(b.index(0), length, [&](Value k) {
        memref::StoreOp::create(b, b.constantF64(0.0), panelB,
                                ValueRange{k, j});
      });
    });
  }

  /// The sums of row `i` of the panels.
  Value sum(Value i, Value length) {
    Value zeros =
        arith::ConstantOp::create(b, DenseElementsAttr::get(vectorType, 0.0));
    return b.forEach(b.index(0), length, zeros,
                     [&](Value k, ValueRange carried) -> SmallVector<Value> {
                       Value a =
                           memref::LoadOp::create(b, panelA, ValueRange{i, k});
                       Value x = vector::LoadOp::create(
                           b, vectorType, panelB, ValueRange{k, b.index(0)});
                       Value product = arith::MulFOp::create(
                           b, vector::BroadcastOp::create(b, vectorType, a), x);
                       return {arith::AddFOp::create(b, carried[0], product)};
                     })[0];
  }

  /// Elements with block scales are wide already.
  Value toF64(Value value) {
    if (value.getType().isF64())
      return value;
    return arith::ExtFOp::create(b, b.getF64Type(), toF32(b, value));
  }

  LoopBuilder &b;
  VectorType vectorType;
  Value panelA, panelB;
};

/// (G9): the scales of blocks of an operand, if it has any.
class BlockScales {
public:
  BlockScales(MatmulOpInterface op, Value scales, OpLowering &l) : b(l.b) {
    if (hasBlockScales(op))
      buffer = &l.getBuffer(scales);
  }

  explicit operator bool() const { return buffer; }
  /// The padding of each group's line of scales, or of its blocks.
  std::optional<int64_t> getPad() const {
    GroupPaddingAttr padding =
        buffer ? getGroupPadding(buffer->type) : GroupPaddingAttr();
    return padding ? std::optional(padding.getPad()) : std::nullopt;
  }

  /// The element times the scale at `indices`, whose last one counts elements
  /// from where block `firstBlock` begins: an f64, exactly. Without scales it
  /// is the element.
  Value apply(Value element, SmallVector<Value> indices, Value firstBlock) {
    if (!buffer)
      return element;
    indices.back() = b.add(firstBlock, b.div(indices.back(), kMXBlock));
    Value scale = getMXScale(b, buffer->load(b, indices));
    auto widen = [&](Value f32) -> Value {
      return arith::ExtFOp::create(b, b.getF64Type(), f32);
    };
    return arith::MulFOp::create(b, widen(toF32(b, element)), widen(scale));
  }

private:
  LoopBuilder &b;
  const TensorBuffer *buffer = nullptr;
};

/// Rounds sums, applies the scales and adds what is there (G3), (G4), (G6),
/// (G10).
class Epilogue {
public:
  Epilogue(MatmulOpInterface op, OpLowering &l)
      : b(l.b), result(l.getBuffer(op.getResult())),
        direction(op.getDirection()) {
    if (direction) {
      scaleA = &l.getBuffer(op.getScaleA());
      if (op.getScaleB())
        scaleB = &l.getBuffer(op.getScaleB());
    }
    if (op.getAddend())
      addend = &l.getBuffer(op.getAddend());
  }

  /// The element of the result at `indices`, whose scales are at `indicesA` and
  /// `indicesB`.
  Value finish(Value sum, ArrayRef<Value> indices, ArrayRef<Value> indicesA,
               ArrayRef<Value> indicesB) {
    Value value = arith::TruncFOp::create(b, b.getF32Type(), sum);
    if (scaleA)
      value = multiply(value, *scaleA, indicesA);
    if (scaleB)
      value = multiply(value, *scaleB, indicesB);
    if (addend)
      value =
          arith::AddFOp::create(b, toF32(b, addend->load(b, indices)), value);
    return fromF32(b, value, result.getElementType());
  }

  /// The element of the result where there is no product.
  Value getWithoutProduct(ArrayRef<Value> indices) {
    return addend ? addend->load(b, indices) : b.zero(result.getElementType());
  }

private:
  Value multiply(Value value, const TensorBuffer &scale,
                 ArrayRef<Value> indices) {
    return arith::MulFOp::create(
        b, value, getDequantizingScale(b, scale.load(b, indices), *direction));
  }

  LoopBuilder &b;
  const TensorBuffer &result;
  std::optional<ScaleDirection> direction;
  const TensorBuffer *scaleA = nullptr, *scaleB = nullptr, *addend = nullptr;
};

/// (G1), (G7): rows times a matrix.
class RowsMatmul {
public:
  RowsMatmul(MatmulOpInterface op, OpLowering &l)
      : b(l.b), a(l.getBuffer(op.getA())), matrices(l.getBuffer(op.getB())),
        result(l.getBuffer(op.getResult())), epilogue(op, l),
        scalesA(op, op.getScaleA(), l), scalesB(op, op.getScaleB(), l),
        matmul(b, a.sizes[1]) {}

  /// Multiplies the rows of a group by the matrix of its expert, or by the only
  /// one where the group has no number. Padded scales of blocks begin at
  /// `scaleBegin`. Returns where those of the next group do.
  Value multiply(const Group &group, Value scaleBegin) {
    Value zero = b.index(0);
    std::optional<int64_t> pad = scalesA.getPad();
    auto ofExpert = [&](SmallVector<Value> indices) {
      if (group.number)
        indices.insert(indices.begin(), group.number);
      return indices;
    };
    auto loadA = [&](Value row, Value k) {
      Value line = pad ? b.add(scaleBegin, b.sub(row, group.begin)) : row;
      return scalesA.apply(a.load(b, {row, k}), {line, k}, zero);
    };
    auto loadB = [&](Value k, Value column) {
      return scalesB.apply(matrices.load(b, ofExpert({k, column})),
                           ofExpert({column, k}), zero);
    };
    auto store = [&](Value row, Value column, Value sum) {
      SmallVector<Value> indices = {row, column};
      Value value = epilogue.finish(sum, indices, {row}, ofExpert({column}));
      result.store(b, value, indices);
    };
    matmul.multiply({group.begin, group.end, result.sizes[1], zero, a.sizes[1],
                     loadA, loadB, store});
    Value length = b.sub(group.end, group.begin);
    return pad ? b.add(scaleBegin, b.roundUp(length, *pad)) : scaleBegin;
  }

  /// Writes the rows of no group.
  void finishRows(Value begin) {
    result.forEachElement(
        b, 0, begin, result.sizes[0], [&](ArrayRef<Value> indices) {
          result.store(b, epilogue.getWithoutProduct(indices), indices);
        });
  }

private:
  LoopBuilder &b;
  const TensorBuffer &a, &matrices, &result;
  Epilogue epilogue;
  BlockScales scalesA, scalesB;
  MatmulBuilder matmul;
};

} // namespace

static void multiplyByExperts(GroupedMatmulOp op, OpLowering &l) {
  RowsMatmul matmul(op, l);
  GroupsEnd end = forEachGroup(l.b, l.getBuffer(op.getOffsets()),
                               l.getBuffer(op.getA()).sizes[0],
                               [&](const Group &group, Value scaleBegin) {
                                 return matmul.multiply(group, scaleBegin);
                               });
  matmul.finishRows(end.position);
}

/// (G2): contracts over each group's rows. With padded groups the contraction
/// starts where padding puts the group, and with scales of blocks these do.
static void contractGroups(GroupedMatmulOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &a = l.getBuffer(op.getA());
  const TensorBuffer &other = l.getBuffer(op.getB());
  const TensorBuffer &result = l.getBuffer(op.getResult());
  GroupPaddingAttr padding = getGroupPadding(op.getA().getType());
  Value extent = a.sizes[1];
  Epilogue epilogue(op, l);
  BlockScales scalesA(op, op.getScaleA(), l), scalesB(op, op.getScaleB(), l);
  MatmulBuilder matmul(b, extent);
  forEachGroup(
      b, l.getBuffer(op.getOffsets()), extent,
      [&](const Group &group, Value start) -> Value {
        Value length = b.sub(group.end, group.begin);
        Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                              length, b.index(0));
        Value begin = padding ? start : group.begin;
        Value readable =
            padding ? clampToExtent(b, start, length, extent) : length;
        auto loadA = [&](Value row, Value k) {
          return scalesA.apply(a.load(b, {row, k}), {row, b.sub(k, begin)},
                               start);
        };
        auto loadB = [&](Value k, Value column) {
          return scalesB.apply(other.load(b, {k, column}),
                               {column, b.sub(k, begin)}, start);
        };
        matmul.multiply(
            {b.index(0), a.sizes[0], result.sizes[2], begin,
             b.add(begin, readable), loadA, loadB,
             [&](Value row, Value column, Value sum) {
               SmallVector<Value> indices = {group.number, row, column};
               Value value = epilogue.finish(sum, indices, {group.number, row},
                                             {group.number, column});
               // Whatever the scales of an empty group are.
               value = b.select(isEmpty, epilogue.getWithoutProduct(indices),
                                value);
               result.store(b, value, indices);
             }});
        if (std::optional<int64_t> pad = scalesA.getPad())
          return b.add(start, b.roundUp(b.ceilDiv(length, kMXBlock), *pad));
        return padding ? b.add(start, b.roundUp(length, padding.getPad()))
                       : start;
      });
}

static void lowerLinear(LinearOp op, OpLowering &l) {
  Value zero = l.b.index(0);
  RowsMatmul(op, l).multiply(
      {/*number=*/Value(), zero, l.getBuffer(op.getA()).sizes[0]}, zero);
}

static void lowerGroupedMatmul(GroupedMatmulOp op, OpLowering &l) {
  if (op.isMGrouped())
    multiplyByExperts(op, l);
  else
    contractGroups(op, l);
}

void mlir::fp8moe::populateMatmulPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerLinear, lowerGroupedMatmul);
}
