//===- SegmentTiles.cpp - Tiles of segments of rows -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/SegmentTiles.h"

#include "Kernels/Emit/SegmentBounds.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// How many rows a jagged segment may add to those that tiles have: each begins
/// with a tile of its own, which may begin before it does.
static int64_t getRowsOfSegment(int64_t rowAlignment) {
  return kSegmentTile - 1 + rowAlignment - 1;
}

Value SegmentTiles::countRowTiles() {
  Value most =
      offsets ? b.add(rows, b.mul(segments, getRowsOfSegment(rowAlignment)))
              : rows;
  return b.ceilDiv(most, kSegmentTile);
}

Value SegmentTiles::countColumnTiles() {
  return b.ceilDiv(columns, kSegmentTile);
}

SegmentTile SegmentTiles::createTile(Value batch, Value rowTile,
                                     Value columnTile) {
  SegmentTile tile;
  tile.batch = tile.segment = batch;
  tile.rows = {{b.i64(0), rows}, b.mul(rowTile, kSegmentTile), rowTile};
  tile.columns = {
      {b.i64(0), columns}, b.mul(columnTile, kSegmentTile), columnTile};
  tile.isRemainder = b.i1(false);
  if (!offsets)
    return tile;
  SegmentTiling tiling{kSegmentTile};
  tiling.alignment = rowAlignment;
  auto [index, firstTileRow, bounds] =
      findSegment(b, offsets, rowTile, segments, rows, tiling);
  tile.batch = b.i64(0);
  tile.segment = index;
  tile.isRemainder = b.equal(index, segments);
  Value end = b.add(bounds.start, bounds.length);
  tile.rows.range = {bounds.start, b.select(tile.isRemainder, rows, end)};
  Value first = b.bitAnd(bounds.start, -rowAlignment);
  tile.rows.first = b.add(first, b.sub(tile.rows.first, firstTileRow));
  return tile;
}

void SegmentTiles::forEach(bool alongRows,
                           function_ref<void(const SegmentTile &)> body) {
  Value rowTiles = countRowTiles(), columnTiles = countColumnTiles();
  Value tiles = b.mul(rowTiles, columnTiles);
  Value workTiles = offsets ? tiles : b.mul(tiles, segments);
  auto visit = [&](Value workTile) {
    Value batch = offsets ? b.i64(0) : b.divU(workTile, tiles);
    Value inBatch = offsets ? workTile : b.remU(workTile, tiles);
    Value inner = alongRows ? rowTiles : columnTiles;
    Value outerTile = b.divU(inBatch, inner);
    Value innerTile = b.remU(inBatch, inner);
    body(alongRows ? createTile(batch, innerTile, outerTile)
                   : createTile(batch, outerTile, innerTile));
  };
  // Launches have a block for each tile, up to the limit of a grid.
  b.forEachWorkTile(workTiles, visit, /*mostlyOne=*/true);
}

Plane SegmentTiles::getPlane(const SegmentTile &tile,
                             const SegmentBuffer &buffer, bool alongRows) {
  Plane plane{buffer.pointer, buffer.elementBytes, buffer.rowStride,
              buffer.columnStride, Value()};
  if (!alongRows)
    std::swap(plane.vectorStride, plane.otherStride);
  plane.vectorizable = createVectorizable(
      b, buffer.pointer, buffer.alignment, plane.elementBytes,
      plane.vectorStride, {plane.otherStride, buffer.segmentStride});
  plane.base = b.offsetBytes(
      buffer.pointer,
      b.mul(b.mul(tile.batch, buffer.segmentStride), plane.elementBytes));
  return plane;
}

Plane SegmentTiles::getTilePlane(const SegmentTile &tile,
                                 const SegmentBuffer &buffer, bool alongRows) {
  Plane plane = getPlane(tile, buffer, alongRows);
  if (offsets && alongRows)
    plane.vectorizable =
        b.bitAnd(plane.vectorizable,
                 b.equal(b.remU(tile.rows.first, plane.getChunk()), 0));
  return plane;
}

OpFoldResult fp8moe::countSegmentTiles(SizeBuilder &size,
                                       const SegmentSizes<OpFoldResult> &sizes,
                                       bool jagged, int64_t rowAlignment) {
  OpFoldResult rowTiles;
  if (jagged) {
    OpFoldResult more =
        size.mul(sizes.segments, size.constant(getRowsOfSegment(rowAlignment)));
    rowTiles = size.ceilDiv(size.add(sizes.rows, more), kSegmentTile);
  } else {
    rowTiles = size.mul(size.ceilDiv(sizes.rows, kSegmentTile), sizes.segments);
  }
  return size.mul(rowTiles, size.ceilDiv(sizes.columns, kSegmentTile));
}
