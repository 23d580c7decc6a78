//===- SegmentBounds.h - Where a jagged group begins and ends ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SEGMENTBOUNDS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SEGMENTBOUNDS_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"

namespace mlir::fp8moe {

/// A segment of the rows, all values i64.
struct Segment {
  /// Its first row, and the number of its rows.
  Value start, length;
  /// Its first row when every segment is padded.
  Value paddedStart;
};

/// Bounds of segment `index` of `count`, from the int32 end rows at `offsets`.
/// Each end is clamped to [previous end, rows]. Segment `count` is the
/// remainder rows: it begins where the last segment ends and is empty. With
/// `padding` > 1, paddedStart is the sum of the earlier lengths, each rounded
/// up to a multiple of `padding`; otherwise it is the start.
///
/// The lanes of a subgroup work together, so `index` must be uniform in it.
Segment createSegmentBounds(KernelBuilder &b, Value offsets, Value index,
                            Value count, Value rows, int64_t padding);

/// The segment whose rows, padded to a multiple of `padding`, hold the rows
/// from `tile` * `padding` on, and its number: `count` and the remainder rows
/// where no segment does. `tile` must be uniform in the subgroup.
/// With `emptyHaveTile`, segments without rows have a tile, too. Rows are
/// counted from the multiple of `alignment`, a power of two, at or before the
/// first row of each segment on.
std::pair<Value, Segment> findSegment(KernelBuilder &b, Value offsets,
                                      Value tile, Value count, Value rows,
                                      int64_t padding,
                                      bool emptyHaveTile = false,
                                      int64_t alignment = 1);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SEGMENTBOUNDS_H
