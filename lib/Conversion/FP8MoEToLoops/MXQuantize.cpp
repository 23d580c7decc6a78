//===- MXQuantize.cpp - MX block scales and data --------------------------===//
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

/// (X1): elements that share a scale.
static constexpr int64_t kBlock = 32;

namespace {

/// Quantizes the blocks of one tensor, or of one group of rows of it.
class MXBlocks {
public:
  MXBlocks(MXQuantizeOp op, OpLowering &l)
      : b(l.b), input(l.getBuffer(op.getInput())),
        data(l.getBuffer(op.getQuantized())),
        scales(l.getBuffer(op.getScales())), axis(op.getAxis()),
        mode(op.getMode()) {}

  /// Blocks of the rows [begin, end) along dimension 0 (of the whole tensor
  /// when they are its rows). The first row, or the first block when rows are
  /// what blocks are cut from, has its scales at `scaleBegin`.
  void quantizeRows(Value begin, Value end, Value scaleBegin) {
    SmallVector<Value> lowers(input.sizes.size(), b.index(0));
    SmallVector<Value> uppers(input.sizes);
    lowers[0] = begin;
    uppers[0] = end;
    Value first = lowers[axis], last = uppers[axis];
    // Along the axis the loop counts blocks.
    lowers[axis] = b.index(0);
    uppers[axis] = b.ceilDiv(b.sub(last, first), kBlock);
    b.nest(input.getMemoryOrder(), lowers, uppers,
           [&](ArrayRef<Value> indices) {
             SmallVector<Value> scaleIndices(indices);
             scaleIndices[0] = b.add(
                 axis == 0 ? indices[0] : b.sub(indices[0], begin), scaleBegin);
             std::rotate(scaleIndices.begin() + axis,
                         scaleIndices.begin() + axis + 1, scaleIndices.end());
             Value from = b.add(first, b.mul(indices[axis], kBlock));
             Value to = b.min(b.add(from, b.index(kBlock)), last);
             quantizeBlock(indices, from, to, scaleIndices);
           });
  }

private:
  /// Quantizes the elements [from, to) along the axis.
  void quantizeBlock(ArrayRef<Value> block, Value from, Value to,
                     ArrayRef<Value> scaleIndices) {
    SmallVector<Value> indices(block);
    auto loadElement = [&](Value i) {
      indices[axis] = i;
      return toF32(b, input.load(b, indices));
    };
    Value amax =
        b.forEach(from, to, b.constantI32(0),
                  [&](Value i, ValueRange carried) -> SmallVector<Value> {
                    Value magnitude = getMagnitudeBits(b, loadElement(i));
                    return {arith::MaxUIOp::create(b, carried[0], magnitude)};
                  })[0];
    Type fp8 = data.getElementType();
    Value byte = getMXScaleByte(b, amax, fp8, mode);
    Value multiplier = getMXMultiplier(b, byte);
    Value bits = arith::TruncIOp::create(b, b.getI8Type(), byte);
    scales.store(b, arith::BitcastOp::create(b, scales.getElementType(), bits),
                 scaleIndices);
    b.forEach(from, to, [&](Value i) {
      Value x = loadElement(i);
      data.store(b, quantizeElement(b, x, multiplier, fp8), indices);
    });
  }

  LoopBuilder &b;
  const TensorBuffer &input, &data, &scales;
  int64_t axis;
  MXMode mode;
};

} // namespace

/// (X7): the groups' scales start at multiples of the padding, in rows or in
/// blocks.
static void quantizeGroups(MXQuantizeOp op, OpLowering &l, MXBlocks &blocks) {
  LoopBuilder &b = l.b;
  const TensorBuffer &data = l.getBuffer(op.getQuantized());
  const int64_t pad = getGroupPadding(op.getScales().getType()).getPad();
  Value rows = l.getBuffer(op.getInput()).sizes[0];
  GroupsEnd end =
      forEachGroup(b, l.getBuffer(op.getOffsets()), rows,
                   [&](const Group &group, Value start) {
                     blocks.quantizeRows(group.begin, group.end, start);
                     Value length = b.sub(group.end, group.begin);
                     Value used =
                         op.getAxis() == 0 ? b.ceilDiv(length, kBlock) : length;
                     return b.add(start, b.roundUp(used, pad));
                   });
  data.fillZero(b, 0, end.position, rows);
}

static void lowerMXQuantize(MXQuantizeOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &scales = l.getBuffer(op.getScales());
  // (X6): bytes of no block are zero; plain scales have none.
  if (!StridedLayout::get(scales.type))
    scales.fillZero(b);
  MXBlocks blocks(op, l);
  if (op.getOffsets())
    return quantizeGroups(op, l, blocks);
  Value zero = b.index(0);
  blocks.quantizeRows(zero, l.getBuffer(op.getInput()).sizes[0], zero);
}

void mlir::fp8moe::populateMXQuantizePatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns) {
  patterns.add<LowerToLoops<MXQuantizeOp, lowerMXQuantize>>(
      converter, patterns.getContext());
}
