//===- Groups.h - Jagged groups ---------------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_GROUPS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_GROUPS_H

#include "TensorBuffer.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

namespace mlir::fp8moe {

/// One jagged group: positions [begin, end) along the jagged dimension.
struct Group {
  Value number, begin, end;
};

/// The state after the last group: the first position outside all groups, and
/// the final cursor of forEachGroup.
struct GroupsEnd {
  Value position, cursor;
};

/// Creates a loop over the groups whose ends are `offsets`. Each end is clamped
/// to [end of the previous group, extent], so that invalid offsets never lead
/// out of bounds. The cursor, which starts at 0, is the start of the group in
/// another numbering (padded rows, blocks). `body` gets it and returns that of
/// the next group.
GroupsEnd forEachGroup(LoopBuilder &b, const TensorBuffer &offsets,
                       Value extent,
                       function_ref<Value(const Group &, Value cursor)> body);

/// As above, without a cursor. Returns the first position outside all groups.
Value forEachGroup(LoopBuilder &b, const TensorBuffer &offsets, Value extent,
                   function_ref<void(const Group &)> body);

/// Writes zeros after the `length` positions of a padded group that begins at
/// `start`. Returns the start of the next group.
Value fillGroupPadding(LoopBuilder &b, const TensorBuffer &buffer,
                       GroupPaddingAttr padding, Value start, Value length);

/// Returns how many of the `length` positions from `start` are below `extent`.
/// For padded buffers from outside, whose extent may not match the offsets.
Value clampToExtent(LoopBuilder &b, Value start, Value length, Value extent);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_GROUPS_H
