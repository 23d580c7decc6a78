//===- Relayout.cpp - Copies between layouts ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "OpLowering.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

using namespace mlir;
using namespace mlir::fp8moe;

static void lowerContiguous(ContiguousOp op, OpLowering &l) {
  copyElements(l.b, l.getBuffer(op.getInput()), l.getBuffer(op.getResult()));
}

/// Copies `length` positions along `dim`, from `fromBegin` to `toBegin`.
static void copyRange(LoopBuilder &b, const TensorBuffer &from, Value fromBegin,
                      const TensorBuffer &to, Value toBegin, int64_t dim,
                      Value length) {
  Value shift = b.sub(fromBegin, toBegin);
  to.forEachElement(b, dim, toBegin, b.add(toBegin, length),
                    [&](ArrayRef<Value> indices) {
                      SmallVector<Value> source(indices);
                      source[dim] = b.add(indices[dim], shift);
                      to.store(b, from.load(b, source), indices);
                    });
}

/// (V3): every group moves to where padding begins it.
static void padGroups(RelayoutOp op, OpLowering &l, GroupPaddingAttr padding) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput());
  const TensorBuffer &result = l.getBuffer(op.getResult());
  const int64_t dim = padding.getDim();
  GroupsEnd end = forEachGroup(
      b, l.getBuffer(op.getOffsets()), input.sizes[dim],
      [&](const Group &group, Value start) {
        Value length = b.sub(group.end, group.begin);
        copyRange(b, input, group.begin, result, start, dim, length);
        return fillGroupPadding(b, result, padding, start, length);
      });
  result.fillZero(b, dim, end.cursor, result.sizes[dim]);
}

/// (V3): every group moves back next to the previous one.
static void packGroups(RelayoutOp op, OpLowering &l, GroupPaddingAttr padding) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput());
  const TensorBuffer &result = l.getBuffer(op.getResult());
  const int64_t dim = padding.getDim();
  GroupsEnd end = forEachGroup(
      b, l.getBuffer(op.getOffsets()), result.sizes[dim],
      [&](const Group &group, Value start) {
        Value length = b.sub(group.end, group.begin);
        Value readable = clampToExtent(b, start, length, input.sizes[dim]);
        copyRange(b, input, start, result, group.begin, dim, readable);
        result.fillZero(b, dim, b.add(group.begin, readable), group.end);
        return b.add(start, b.roundUp(length, padding.getPad()));
      });
  result.fillZero(b, dim, end.position, result.sizes[dim]);
}

static void lowerRelayout(RelayoutOp op, OpLowering &l) {
  GroupPaddingAttr inputPadding = getGroupPadding(op.getInput().getType());
  GroupPaddingAttr resultPadding = getGroupPadding(op.getType());
  if (inputPadding == resultPadding)
    return copyElements(l.b, l.getBuffer(op.getInput()),
                        l.getBuffer(op.getResult()));
  // The verifier has seen to it that one side at most has padded groups.
  if (resultPadding)
    return padGroups(op, l, resultPadding);
  packGroups(op, l, inputPadding);
}

void mlir::fp8moe::populateRelayoutPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerContiguous, lowerRelayout);
}
