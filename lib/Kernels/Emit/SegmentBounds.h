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

/// How the rows of segments are divided into tiles.
struct SegmentTiling {
  /// Rows of a tile; each segment begins one.
  int64_t rows;
  /// Segments without rows have a tile, too.
  bool emptyHaveTile = false;
  /// Rows are counted from the multiple of it, a power of two, at or before the
  /// first row of each segment on.
  int64_t alignment = 1;
  /// The padding of paddedStart in the bounds of segments.
  int64_t outputPadding = 1;
};

/// The segment that has a tile.
struct FoundSegment {
  /// Its number: that of segments, for tiles behind all of them, which have the
  /// remainder rows.
  Value index;
  /// Its first row in tiles: the number of those before it times their rows.
  Value firstTileRow;
  Segment bounds;
};

/// The segment that has tile `tile` of those of all segments. The lanes of a
/// subgroup work together, so `tile` must be uniform in it.
FoundSegment findSegment(KernelBuilder &b, Value offsets, Value tile,
                         Value count, Value rows, const SegmentTiling &tiling);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SEGMENTBOUNDS_H
