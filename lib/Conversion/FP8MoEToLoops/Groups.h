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

/// The end of the last group: the first position of no group, and the cursor of
/// forEachGroup.
struct GroupsEnd {
  Value position, cursor;
};

/// Loops over the groups whose ends are `offsets`. Each end is clamped to [end
/// of the previous group, extent], so that wrong offsets never lead out of
/// bounds. A cursor starts at 0 and follows along: `body` gets where the
/// group starts in some other numbering (padded rows, blocks) and returns where
/// the next one does.
GroupsEnd forEachGroup(LoopBuilder &b, const TensorBuffer &offsets,
                       Value extent,
                       function_ref<Value(const Group &, Value cursor)> body);

/// As above, without a cursor. Returns the first position of no group.
Value forEachGroup(LoopBuilder &b, const TensorBuffer &offsets, Value extent,
                   function_ref<void(const Group &)> body);

/// Writes zeros behind the `length` positions of a padded group that begins at
/// `start`, and returns where the next group begins.
Value fillGroupPadding(LoopBuilder &b, const TensorBuffer &buffer,
                       GroupPaddingAttr padding, Value start, Value length);

/// How many of the `length` positions from `start` lie within `extent`. For
/// padded buffers whose extent comes from outside and may not fit the offsets.
Value clampToExtent(LoopBuilder &b, Value start, Value length, Value extent);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_GROUPS_H
