//===- Groups.cpp - Jagged groups -----------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The end of group `number`, clamped to [begin, extent].
static Value getGroupEnd(LoopBuilder &b, const TensorBuffer &offsets,
                         Value number, Value begin, Value extent) {
  Value end =
      arith::IndexCastOp::create(b, b.getIndexType(), offsets.load(b, number));
  return b.min(b.max(end, begin), extent);
}

GroupsEnd
mlir::fp8moe::forEachGroup(LoopBuilder &b, const TensorBuffer &offsets,
                           Value extent,
                           function_ref<Value(const Group &, Value)> body) {
  Value zero = b.index(0);
  SmallVector<Value> end = b.forEach(
      zero, offsets.sizes[0], {zero, zero},
      [&](Value number, ValueRange carried) -> SmallVector<Value> {
        Group group{number, carried[0],
                    getGroupEnd(b, offsets, number, carried[0], extent)};
        Value cursor = body(group, carried[1]);
        return {group.end, cursor};
      });
  return {end[0], end[1]};
}

Value mlir::fp8moe::forEachGroup(LoopBuilder &b, const TensorBuffer &offsets,
                                 Value extent,
                                 function_ref<void(const Group &)> body) {
  Value zero = b.index(0);
  return b.forEach(zero, offsets.sizes[0], zero,
                   [&](Value number, ValueRange carried) -> SmallVector<Value> {
                     Group group{
                         number, carried[0],
                         getGroupEnd(b, offsets, number, carried[0], extent)};
                     body(group);
                     return {group.end};
                   })[0];
}

Value mlir::fp8moe::fillGroupPadding(LoopBuilder &b, const TensorBuffer &buffer,
                                     GroupPaddingAttr padding, Value start,
                                     Value length) {
  Value end = b.add(start, length);
  Value next = b.add(start, b.roundUp(length, padding.getPad()));
  buffer.fillZero(b, padding.getDim(), end, next);
  return next;
}

Value mlir::fp8moe::clampToExtent(LoopBuilder &b, Value start, Value length,
                                  Value extent) {
  return b.max(b.min(length, b.sub(extent, start)), b.index(0));
}
