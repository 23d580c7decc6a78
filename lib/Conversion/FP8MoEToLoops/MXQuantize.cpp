//===- MXQuantize.cpp - MX block scales, data and back --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "OpLowering.h"
#include "Scaling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// How scales are found from the indices of what they are for. Scales of groups
/// of rows have places of their own.
struct ScaleIndices {
  int64_t axis;
  /// The first row of the group, or of the tensor, and where its scales begin.
  Value rowBegin, scaleBegin;

  /// `indices` has the block, counted in the group, at the axis.
  SmallVector<Value> get(LoopBuilder &b, ArrayRef<Value> indices) const {
    SmallVector<Value> result(indices);
    result[0] =
        b.add(axis == 0 ? indices[0] : b.sub(indices[0], rowBegin), scaleBegin);
    std::rotate(result.begin() + axis, result.begin() + axis + 1, result.end());
    return result;
  }
};

/// Quantizes the blocks of one tensor along one axis, or of one group of rows
/// of it.
class MXBlocks {
public:
  MXBlocks(MXQuantizeOp op, unsigned index, OpLowering &l)
      : b(l.b), input(l.getBuffer(op.getInput())),
        data(l.getBuffer(op.getData(index))),
        scales(l.getBuffer(op.getBlockScales(index))),
        axis(op.getAxes()[index]), mode(op.getMode()) {
    // (X9): the other one of the last two dimensions.
    int64_t last = input.getRank() - 1;
    if (op.getSquare())
      across = axis == last ? last - 1 : last;
  }

  /// Blocks of the rows [begin, end) along dimension 0 (of the whole tensor
  /// when they are its rows). The first row, or the first block when rows are
  /// what blocks are cut from, has its scales at `scaleBegin`.
  void quantizeRows(Value begin, Value end, Value scaleBegin) {
    SmallVector<Value> lowers(input.sizes.size(), b.index(0));
    SmallVector<Value> uppers(input.sizes);
    lowers[0] = begin;
    uppers[0] = end;
    Value first = lowers[axis], last = uppers[axis];
    // Along the axis, and across it in square blocks, the loops count blocks.
    lowers[axis] = b.index(0);
    uppers[axis] = b.ceilDiv(b.sub(last, first), kMXBlock);
    if (across)
      uppers[*across] = b.ceilDiv(uppers[*across], kMXBlock);
    ScaleIndices places{axis, begin, scaleBegin};
    b.nest(
        input.getMemoryOrder(), lowers, uppers, [&](ArrayRef<Value> indices) {
          quantizeBlock(indices, getRange(indices[axis], first, last), places);
        });
  }

private:
  struct Range {
    Value begin, end;
  };
  /// The elements of a block in [first, last).
  Range getRange(Value block, Value first, Value last) {
    Value begin = b.add(first, b.mul(block, kMXBlock));
    return {begin, b.min(b.add(begin, b.index(kMXBlock)), last)};
  }

  /// Calls `body` with the indices of each line of a block, null at the axis.
  SmallVector<Value> forEachLine(
      ArrayRef<Value> block, ValueRange inits,
      function_ref<SmallVector<Value>(SmallVector<Value>, ValueRange)> body) {
    SmallVector<Value> indices(block);
    if (!across)
      return body(indices, inits);
    Range lines = getRange(block[*across], b.index(0), input.sizes[*across]);
    return b.forEach(lines.begin, lines.end, inits,
                     [&](Value line, ValueRange carried) {
                       indices[*across] = line;
                       return body(indices, carried);
                     });
  }

  void quantizeBlock(ArrayRef<Value> block, Range range,
                     const ScaleIndices &places) {
    auto loadElement = [&](SmallVector<Value> &indices, Value i) {
      indices[axis] = i;
      return toF32(b, input.load(b, indices));
    };
    Value amax = forEachLine(
        block, b.constantI32(0),
        [&](SmallVector<Value> line, ValueRange carried) {
          return b.forEach(
              range.begin, range.end, carried,
              [&](Value i, ValueRange inner) -> SmallVector<Value> {
                Value magnitude = getMagnitudeBits(b, loadElement(line, i));
                return {arith::MaxUIOp::create(b, inner[0], magnitude)};
              });
        })[0];
    Type fp8 = data.getElementType();
    Value byte = getMXScaleByte(b, amax, fp8, mode);
    Value multiplier = getMXMultiplier(b, byte);
    Value bits = arith::TruncIOp::create(b, b.getI8Type(), byte);
    Value scale = arith::BitcastOp::create(b, scales.getElementType(), bits);
    forEachLine(block, {},
                [&](SmallVector<Value> line, ValueRange) -> SmallVector<Value> {
                  line[axis] = block[axis];
                  scales.store(b, scale, places.get(b, line));
                  b.forEach(range.begin, range.end, [&](Value i) {
                    Value x = loadElement(line, i);
                    data.store(b, quantizeElement(b, x, multiplier, fp8), line);
                  });
                  return {};
                });
  }

  LoopBuilder &b;
  const TensorBuffer &input, &data, &scales;
  int64_t axis;
  /// The other dimension of square blocks.
  std::optional<int64_t> across;
  MXMode mode;
};

} // namespace

/// Calls `body` with the rows of each group and where its scales begin, (X7):
/// at multiples of the padding, in rows or in blocks. Elements of no group
/// become zero in `data`. Without groups all rows are one.
static void
forEachRows(SliceOpInterface op, OpLowering &l, const TensorBuffer &scales,
            int64_t axis, const TensorBuffer &data,
            function_ref<void(Value begin, Value end, Value scaleBegin)> body) {
  LoopBuilder &b = l.b;
  Value rows = l.getBuffer(op.getInput()).sizes[0];
  if (!op.getOffsets())
    return body(b.index(0), rows, b.index(0));
  const int64_t pad = getGroupPadding(scales.type).getPad();
  GroupsEnd end = forEachGroup(b, l.getBuffer(op.getOffsets()), rows,
                               [&](const Group &group, Value start) {
                                 body(group.begin, group.end, start);
                                 Value length = b.sub(group.end, group.begin);
                                 Value used = axis == 0
                                                  ? b.ceilDiv(length, kMXBlock)
                                                  : length;
                                 return b.add(start, b.roundUp(used, pad));
                               });
  data.fillZero(b, 0, end.position, rows);
}

static void lowerMXQuantize(MXQuantizeOp op, OpLowering &l) {
  for (auto [i, axis] : llvm::enumerate(op.getAxes())) {
    const TensorBuffer &scales = l.getBuffer(op.getBlockScales(i));
    // (X6): bytes of no block are zero; plain scales have none.
    if (!StridedLayout::get(scales.type))
      scales.fillZero(l.b);
    MXBlocks blocks(op, i, l);
    forEachRows(op, l, scales, axis, l.getBuffer(op.getData(i)),
                [&](Value begin, Value end, Value scaleBegin) {
                  blocks.quantizeRows(begin, end, scaleBegin);
                });
  }
}

/// (X8): the inverse, along the memory order of the input.
static void lowerMXDequantize(MXDequantizeOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput()),
                     &scales = l.getBuffer(op.getScale()),
                     &result = l.getBuffer(op.getResult());
  const int64_t axis = op.getAxis();
  auto dequantize = [&](Value begin, Value end, Value scaleBegin) {
    ScaleIndices places{axis, begin, scaleBegin};
    input.forEachElement(b, 0, begin, end, [&](ArrayRef<Value> indices) {
      SmallVector<Value> block(indices);
      Value first = axis == 0 ? begin : b.index(0);
      block[axis] = b.div(b.sub(indices[axis], first), kMXBlock);
      Value scale = getMXScale(b, scales.load(b, places.get(b, block)));
      Value product =
          arith::MulFOp::create(b, toF32(b, input.load(b, indices)), scale);
      result.store(b, fromF32(b, product, result.getElementType()), indices);
    });
  };
  forEachRows(op, l, scales, axis, result, dequantize);
}

void mlir::fp8moe::populateMXQuantizePatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerMXQuantize, lowerMXDequantize);
}
