//===- Tile.cpp - Which workgroup computes which tile ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Workgroups are dealt to the dies in turn, so consecutive ones share no
// second-level cache. A die gets every eighth (by the number of dies) block of
// rows, with all of its columns, in bands: what runs at once on a die are a few
// blocks of rows by a band of columns, and both operands come from its cache.
//
// A dense matmul has as many workgroups as tiles, but for those that round them
// up for the dies. M-grouped, blocks of rows are counted through all groups,
// each of which may end inside a block, and then through the rows of no group.
// The host only knows how many there are at most: workgroups that find nothing
// end.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Tiles along the columns that a die works on together. With 32 to 38
/// workgroups at once that is a patch of about 8 by 4 tiles.
static constexpr int64_t kBandTiles = 8;

namespace {
/// A group's rows, or range of the contraction, and the blocks and tiles of
/// scales before it, all i32 numbers of the wave.
struct Group {
  Value index, start, end, firstBlock, firstScaleTile;

  SmallVector<Value> pack() const {
    return {index, start, end, firstBlock, firstScaleTile};
  }
  static Group unpack(ValueRange values) {
    return {values[0], values[1], values[2], values[3], values[4]};
  }
};

class TileFinder {
public:
  explicit TileFinder(CDNAMatmulKernel &kernel) : kernel(kernel), b(kernel.b) {}

  /// The block of rows and the tile along the columns, both i32.
  std::pair<Value, Value> findPlace();
  /// The tile and whether there is one (i1).
  std::pair<CDNATile, Value> findForward(Value rowBlock, Value column);
  std::pair<CDNATile, Value> findGradient(Value rowBlock, Value column);

private:
  Group findGroup(Value count, Value extent, int64_t blockSize,
                  function_ref<Value(Value group, Value endBlock)> isBehind);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
};
} // namespace

/// The first of the first `count` groups for which `isBehind` (i1) holds; else
/// `count`, as an empty group behind the last one. Ends are clamped to
/// [previous end, extent]. Each lane looks at a group, up to the end of which
/// there are `endBlock` blocks of `blockSize`.
Group TileFinder::findGroup(Value count, Value extent, int64_t blockSize,
                            function_ref<Value(Value, Value)> isBehind) {
  Value bytes = b.widen(b.mul(b.narrow(kernel.sizes.groups), sizeof(int32_t)));
  BufferRange offsets(b, kernel.offsets, bytes);
  Value zero = b.i32(0), lastLane = b.i32(CDNAMatmulConfig::kWaveLanes - 1);
  bool countsScaleTiles =
      kernel.problem.blockScalesA == BlockScales::GroupTiles;
  // The loop carries the group that was found, then the end, the blocks and the
  // tiles of scales of all groups so far.
  SmallVector<Value> init = Group{b.i32(-1), zero, zero, zero, zero}.pack();
  init.append({zero, zero, zero});
  SmallVector<Value> results = b.createFor(
      zero, count, CDNAMatmulConfig::kWaveLanes, init,
      [&](Value first, ValueRange carried) {
        Group found = Group::unpack(carried);
        ValueRange soFar = carried.take_back(3);
        Value group = b.add(first, kernel.lane);
        // Zero behind the last one.
        Value end =
            offsets.load(b, b.getI32Type(), b.mul(group, sizeof(int32_t)));
        end = b.maxS(b.clamp(end, 0, extent), soFar[0]);
        end =
            b.scanLanesIdempotent(end, kernel.lane, [&](Value lhs, Value rhs) {
              return b.maxS(lhs, rhs);
            });
        Value start = b.select(b.equal(kernel.lane, 0), soFar[0],
                               b.shiftLanes(end, kernel.lane));
        auto countSoFar = [&](Value number, Value before) {
          Value sum =
              b.scanLanes(number, kernel.lane, [&](Value lhs, Value rhs) {
                return b.add(lhs, rhs);
              });
          return b.add(sum, before);
        };
        Value blocks = b.ceilDiv(b.sub(end, start), blockSize);
        Value endBlock = countSoFar(blocks, soFar[1]);
        Value scaleTiles = zero, endScaleTile = zero;
        if (countsScaleTiles) {
          scaleTiles = b.ceilDiv(b.sub(end, start), kSegmentTile);
          endScaleTile = countSoFar(scaleTiles, soFar[2]);
        }
        Value lanes =
            b.ballot(b.bitAnd(isBehind(group, endBlock), b.less(group, count)));
        Value isNew = b.bitAnd(b.isNonZero(lanes), b.equal(found.index, -1));
        Value lane = b.narrow(LLVM::CountTrailingZerosOp::create(
            b, lanes.getType(), lanes, /*is_zero_poison=*/false));
        lane = b.bitAnd(lane, CDNAMatmulConfig::kWaveLanes - 1);
        Value here[] = {group, start, end, b.sub(endBlock, blocks),
                        b.sub(endScaleTile, scaleTiles)};
        SmallVector<Value> next;
        for (auto [value, before] : llvm::zip_equal(here, found.pack()))
          next.push_back(b.select(
              isNew, kernel::ReadLaneOp::create(b, value, lane), before));
        for (Value value : {end, endBlock, endScaleTile})
          next.push_back(kernel::ReadLaneOp::create(b, value, lastLane));
        return next;
      });
  Group found = Group::unpack(results);
  ArrayRef<Value> all = ArrayRef(results).take_back(3);
  Value isRemainder = b.equal(found.index, -1);
  return {b.select(isRemainder, count, found.index),
          b.select(isRemainder, all[0], found.start),
          b.select(isRemainder, all[0], found.end),
          b.select(isRemainder, all[1], found.firstBlock),
          b.select(isRemainder, all[2], found.firstScaleTile)};
}

std::pair<Value, Value> TileFinder::findPlace() {
  int64_t dies = kernel.config.dies;
  Value block = b.narrow(b.getBlock());
  Value alongColumns =
      b.narrow(b.ceilDiv(kernel.sizes.columns, kernel.config.columns));
  Value inDie = b.divU(block, dies);
  Value rowBlocks = b.divU(b.getNumBlocks(), b.mul(alongColumns, dies));
  Value bandTiles = b.mul(rowBlocks, kBandTiles);
  Value firstColumn = b.mul(b.divU(inDie, bandTiles), kBandTiles);
  Value inBand = b.remU(inDie, bandTiles);
  Value width = b.minS(b.sub(alongColumns, firstColumn), kBandTiles);
  Value row = b.add(b.mul(b.divU(inBand, width), dies), b.remU(block, dies));
  return {row, b.add(firstColumn, b.remU(inBand, width))};
}

std::pair<CDNATile, Value> TileFinder::findForward(Value rowBlock,
                                                   Value column) {
  int64_t tileRows = kernel.config.rows;
  Value rows = b.narrow(kernel.sizes.rows);
  Value groups = b.narrow(kernel.sizes.groups);
  // All rows of a dense matmul are one group, whose end nobody has to read.
  bool isDense = kernel.problem.dense;
  Group group =
      isDense ? Group{b.i32(0), b.i32(0), rows, b.i32(0), b.i32(0)}
              : findGroup(groups, rows, tileRows, [&](Value, Value endBlock) {
                  return b.less(rowBlock, endBlock);
                });
  CDNATile tile;
  tile.isZero = isDense ? b.i1(false) : b.equal(group.index, groups);
  tile.group = b.select(tile.isZero, b.i32(0), group.index);
  Value inGroup = b.mul(b.sub(rowBlock, group.firstBlock), tileRows);
  tile.row = b.add(group.start, inGroup);
  tile.scaleRow = b.add(b.mul(group.firstScaleTile, kSegmentTile), inGroup);
  // Behind the last group come the rows of none.
  tile.rowsLeft = b.sub(b.select(tile.isZero, rows, group.end), tile.row);
  tile.column = column;
  tile.columnsLeft = b.sub(b.narrow(kernel.sizes.columns), column);
  tile.firstScaleTile = b.i32(0);
  tile.firstByte = tile.headBytes = tile.shiftBytes = b.i32(0);
  Value bytes = b.narrow(kernel.getBytes(kernel.sizes.contraction));
  tile.endBytes = b.select(tile.isZero, b.i32(0), bytes);
  return {tile, b.less(b.i32(0), tile.rowsLeft)};
}

std::pair<CDNATile, Value> TileFinder::findGradient(Value rowBlock,
                                                    Value column) {
  Value rows = b.narrow(kernel.sizes.rows);
  Value groups = b.narrow(kernel.sizes.groups);
  Value extent = b.narrow(kernel.sizes.contraction);
  Value alongRows = b.ceilDiv(rows, kernel.config.rows);
  Value index = b.divU(rowBlock, alongRows);
  Value exists = b.less(index, groups);
  int64_t padding = kernel.problem.padding;
  Group group =
      findGroup(b.minS(b.add(index, 1), groups), extent, padding,
                [&](Value group, Value) { return b.equal(group, index); });
  CDNATile tile;
  tile.group = index;
  tile.row = b.mul(b.remU(rowBlock, alongRows), kernel.config.rows);
  tile.rowsLeft = b.sub(rows, tile.row);
  tile.column = column;
  tile.columnsLeft = b.sub(b.narrow(kernel.sizes.columns), column);
  Value length = b.sub(group.end, group.start);
  tile.isZero = b.equal(length, 0);
  tile.firstScaleTile = group.firstScaleTile;
  Value begin = kernel.getBytes(b.mul(group.firstBlock, padding));
  tile.headBytes = tile.shiftBytes = b.i32(0);
  if (kernel.config.shiftsLines)
    tile.shiftBytes = b.bitAnd(begin, kWordBytes - 1);
  else if (kernel.needsHeadMask())
    tile.headBytes = b.bitAnd(begin, CDNAMatmulConfig::kChunkBytes - 1);
  tile.firstByte = b.sub(begin, b.add(tile.headBytes, tile.shiftBytes));
  // Wrong offsets give wrong numbers, and no wrong address.
  Value most = b.maxS(b.sub(kernel.getBytes(extent), tile.firstByte), 0);
  Value end = b.add(tile.headBytes, kernel.getBytes(length));
  tile.endBytes = b.select(tile.isZero, b.i32(0), b.minS(end, most));
  return {tile, exists};
}

void fp8moe::createCDNATile(CDNAMatmulKernel &kernel,
                            function_ref<void(const CDNATile &)> body) {
  TileFinder finder(kernel);
  auto [rowBlock, columnTile] = finder.findPlace();
  Value column = kernel.b.mul(columnTile, kernel.config.columns);
  auto [tile, exists] = kernel.problem.isMGrouped()
                            ? finder.findForward(rowBlock, column)
                            : finder.findGradient(rowBlock, column);
  const CDNATile &found = tile;
  kernel.b.createIf(exists, [&] { body(found); });
}
