//===- SegmentTiles.h - Tiles of segments of rows ------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_SEGMENTTILES_H
#define FP8MOE_LIB_KERNELS_EMIT_SEGMENTTILES_H

#include "Kernels/Emit/MemoryAccess.h"

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"

#include <array>

namespace mlir::fp8moe {

/// Rows and columns of a tile. Tiles are counted as if each jagged segment were
/// padded to a multiple of it.
inline constexpr int64_t kSegmentTile = 128;

/// The sizes of an operation on segments and the strides of its buffers, in
/// elements. Element (g, r, c), for a row r of segment g and a column c, lies
/// at g * inSegment + r * inRow + c * inColumn in the input, correspondingly in
/// the output.
template <typename T> struct SegmentSizes {
  T segments;
  /// Rows of every segment, or of all jagged segments together.
  T rows;
  T columns;
  T inSegment, inRow, inColumn;
  T outSegment, outRow, outColumn;
  /// Strides of the scales; those of lines that lie in tiles are 0.
  T scaleSegment, scaleLine;

  static constexpr auto members() {
    using S = SegmentSizes;
    return std::array{&S::segments,     &S::rows,     &S::columns,
                      &S::inSegment,    &S::inRow,    &S::inColumn,
                      &S::outSegment,   &S::outRow,   &S::outColumn,
                      &S::scaleSegment, &S::scaleLine};
  }
};

/// One dimension of a tile.
struct TileExtent {
  /// The segment's range of indices, and the tile's first index. In the
  /// remainder rows the first index may be past the range.
  IndexRange range;
  Value first;
  /// Index of the tile in this dimension. Along rows, tiles of all jagged
  /// segments are counted, each segment padded to whole tiles.
  Value index;

  Value contains(KernelBuilder &b, Value position) const {
    return b.bitAnd(b.lessEqual(range.low, position),
                    b.less(position, range.high));
  }
};

struct SegmentTile {
  /// The matrix of a uniform segment; 0 for jagged ones, which lie in one
  /// matrix.
  Value batch;
  /// Index of the segment; equals the number of segments for the remainder
  /// rows.
  Value segment;
  TileExtent rows, columns;
  /// i1: the tile's rows come after the last jagged segment.
  Value isRemainder;

  const TileExtent &get(bool areRows) const { return areRows ? rows : columns; }
};

/// A buffer of segments: its strides in elements, and its known alignment.
struct SegmentBuffer {
  Value pointer;
  int64_t elementBytes;
  /// Promised alignment in bytes of the first element.
  int64_t alignment;
  Value segmentStride, rowStride, columnStride;
};

/// Divides segments into tiles, each within one segment. Segments are uniform
/// (a matrix each) or jagged (ranges of rows of one matrix).
class SegmentTiles {
public:
  /// `offsets` points to the end rows of jagged segments, null for uniform
  /// ones. Tiles begin at multiples of `rowAlignment`: a jagged segment's first
  /// tile at the multiple at or before its first row.
  SegmentTiles(KernelBuilder &b, const SegmentSizes<Value> &sizes,
               Value offsets, int64_t rowAlignment = 1)
      : b(b), segments(sizes.segments), rows(sizes.rows),
        columns(sizes.columns), offsets(offsets), rowAlignment(rowAlignment) {}

  /// Return the tiles along the rows or columns of a uniform segment, or of all
  /// jagged segments together. The latter include the remainder rows.
  Value countRowTiles();
  Value countColumnTiles();

  /// Calls `body` for each tile, in the grid-stride loop of forEachWorkTile.
  /// Consecutive work tiles are neighbours along rows (`alongRows`) or columns.
  void forEach(bool alongRows, function_ref<void(const SegmentTile &)> body);

  /// Returns the matrix of the tile's segment for accesses in chunks along one
  /// dimension. Chunks begin at multiples of the chunk size.
  Plane getPlane(const SegmentTile &tile, const SegmentBuffer &buffer,
                 bool alongRows);
  /// Like getPlane, for chunks counted from the tile's first index. (Jagged
  /// segments may begin in any row.)
  Plane getTilePlane(const SegmentTile &tile, const SegmentBuffer &buffer,
                     bool alongRows);

private:
  SegmentTile createTile(Value batch, Value rowTile, Value columnTile);

  KernelBuilder &b;
  Value segments, rows, columns, offsets;
  int64_t rowAlignment;
};

/// Returns the number of tiles, computed on the host.
OpFoldResult countSegmentTiles(SizeBuilder &size,
                               const SegmentSizes<OpFoldResult> &sizes,
                               bool jagged, int64_t rowAlignment = 1);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SEGMENTTILES_H
