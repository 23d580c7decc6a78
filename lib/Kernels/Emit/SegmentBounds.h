//===- SegmentBounds.h - Where a jagged group begins and ends ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_SEGMENTBOUNDS_H
#define FP8MOE_LIB_KERNELS_EMIT_SEGMENTBOUNDS_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// A segment, which is a range of consecutive rows. All values are i64.
struct Segment {
  /// First row of the segment, and its number of rows.
  Value start, length;
  /// First row of the segment in a tensor where every segment is padded.
  Value paddedStart;
};

/// Returns the bounds of segment `index` of `count`, from the int32 end rows at
/// `offsets`. Each end is clamped to [previous end, rows]. Segment `count` is
/// the remainder: it begins where the last segment ends, and its length is
/// zero. With `padding` > 1, paddedStart is the sum of the earlier lengths,
/// each rounded up to a multiple of `padding`. Otherwise it equals the start.
///
/// The lanes of a subgroup work together, so `index` must be uniform in it.
Segment createSegmentBounds(KernelBuilder &b, Value offsets, Value index,
                            Value count, Value rows, int64_t padding);

/// How the rows of segments are divided into tiles.
struct SegmentTiling {
  /// Rows of a tile. Each segment begins a new tile.
  int64_t rows;
  /// Whether an empty segment has a tile.
  bool emptyHaveTile = false;
  /// A power of two. The first tile of a segment begins at the multiple of it
  /// at or before the segment's first row.
  int64_t alignment = 1;
  /// The `padding` that determines Segment::paddedStart.
  int64_t outputPadding = 1;
};

/// The segment that contains a tile.
struct FoundSegment {
  /// Index of the segment. For tiles of the remainder rows, after all segments,
  /// it is the number of segments.
  Value index;
  /// Number of tiles of all earlier segments, times the rows of a tile.
  Value firstTileRow;
  Segment bounds;
};

/// Returns the segment that contains tile `tile`, counted through all segments.
/// The lanes of a subgroup work together, so `tile` must be uniform in it.
FoundSegment findSegment(KernelBuilder &b, Value offsets, Value tile,
                         Value count, Value rows, const SegmentTiling &tiling);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SEGMENTBOUNDS_H
