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

namespace mlir::fp8moe {

/// Rows and columns of a tile, and the rows to which jagged segments are padded
/// when tiles are counted.
inline constexpr int64_t kSegmentTile = 128;

/// One dimension of a tile.
struct TileExtent {
  /// The indices of the segment, and the first one of the tile, which may be
  /// past their end in the remainder rows.
  IndexRange range;
  Value first;
  /// The number of the tile. Rows of jagged segments are counted as if each
  /// segment were padded to whole tiles.
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
  /// The segment; the number of segments for the remainder rows.
  Value segment;
  TileExtent rows, columns;
  /// i1: the rows are behind the last jagged segment.
  Value isRemainder;

  const TileExtent &get(bool areRows) const { return areRows ? rows : columns; }
};

/// The strides of a buffer of segments in elements, and what is known of it.
struct SegmentBuffer {
  Value pointer;
  int64_t elementBytes;
  /// Promised alignment in bytes of the first element.
  int64_t alignment;
  Value segmentStride, rowStride, columnStride;
};

/// Segments of rows, divided into tiles that are of one segment each. Segments
/// are uniform or jagged (one matrix whose rows they divide).
class SegmentTiles {
public:
  /// `offsets` are the end rows of jagged segments, null for uniform ones.
  /// Tiles begin at rows that are multiples of `rowAlignment`: the first one of
  /// a jagged segment at or before the segment.
  SegmentTiles(KernelBuilder &b, Value segments, Value rows, Value columns,
               Value offsets, int64_t rowAlignment = 1)
      : b(b), segments(segments), rows(rows), columns(columns),
        offsets(offsets), rowAlignment(rowAlignment) {}

  /// Tiles of a uniform segment, or of all jagged ones and the rows behind
  /// them.
  Value countRowTiles();
  Value countColumnTiles();

  /// Calls `body` with the tiles in the turns of forEachWorkTile. Neighbouring
  /// work tiles are neighbours along rows or along columns.
  void forEach(bool alongRows, function_ref<void(const SegmentTile &)> body);

  /// The matrix of the tile's segment, accessed in chunks along a dimension,
  /// which begin at multiples of the chunk size.
  Plane getPlane(const SegmentTile &tile, const SegmentBuffer &buffer,
                 bool alongRows);
  /// As above, for chunks that are counted from the tile's first index on.
  /// Jagged segments begin in any row.
  Plane getTilePlane(const SegmentTile &tile, const SegmentBuffer &buffer,
                     bool alongRows);

private:
  SegmentTile createTile(Value batch, Value rowTile, Value columnTile);

  KernelBuilder &b;
  Value segments, rows, columns, offsets;
  int64_t rowAlignment;
};

/// How many tiles there are, on the host.
OpFoldResult countSegmentTiles(SizeBuilder &size, OpFoldResult segments,
                               OpFoldResult rows, OpFoldResult columns,
                               bool jagged, int64_t rowAlignment = 1);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SEGMENTTILES_H
