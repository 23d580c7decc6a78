//===- TileScheduler.cpp - Which block computes which tile ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Tiles are numbered through all groups, in the order that groups are processed
// in, and blocks loop over them with the grid's stride. Only the device knows
// the ends of groups, so each role walks over the ends: a tile's state holds
// its group, and the next tile's group is at or after it.
//
// The time of a K-grouped tile is proportional to its group's length. Groups
// are then processed by length, longest first, and blocks alternate in
// direction:
//
//   block   0  1  2  3
//   tile    0  1  2  3     of every four, none is much longer than another;
//           7  6  5  4     a block with a longer one gets a shorter one next
//           8  9 10 11
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// LLVM unrolls loops over at most so many stages, if their number is static.
static constexpr int64_t kUnrolledStages = 4;

/// Whether LLVM would unroll loops over the stages if their number were static.
/// Each copy would take registers for its own accumulators.
static bool isUnrolled(const GroupedMatmulKernel &kernel) {
  int64_t contraction = kernel.problem.sizes.contraction;
  return ShapedType::isStatic(contraction) &&
         contraction <= kUnrolledStages * kernel.getStageElements();
}

TileState TileState::unpackNamed(KernelBuilder &b, ValueRange values) {
  constexpr StringRef names[] = {"tile",  "step", "group",       "first_tile",
                                 "begin", "end",  "padded_begin"};
  for (auto [name, value] : llvm::zip_first(names, values))
    b.named(name, value);
  return unpack(values);
}

TileScheduler::TileScheduler(GroupedMatmulKernel &kernel, Value takesSecond)
    : kernel(kernel), b(kernel.b), takesSecond(takesSecond) {
  const HopperMatmulConfig &config = kernel.config;
  bool mGrouped = kernel.problem.isMGrouped();
  numGroups = b.add(kernel.sizes.groups, kernel.problem.hasExperts());
  extent = mGrouped ? kernel.sizes.rows : kernel.sizes.contraction;
  tilesAlongColumns = b.ceilDiv(kernel.sizes.columns, config.columns);
  if (mGrouped) {
    numStages = b.ceilDiv(kernel.sizes.contraction, kernel.getStageElements());
    if (isUnrolled(kernel))
      numStages = kernel::OpaqueOp::create(b, numStages);
  } else {
    tilesAlongRows = b.ceilDiv(kernel.sizes.rows, config.rows);
    if (GroupOrder::isWorthwhile(kernel.problem, config))
      order.emplace(kernel);
  }
}

/// Loads the end of a group, or returns that of the remainder rows.
Value TileScheduler::loadEnd(Value group, Value previous) {
  if (kernel.problem.dense)
    return extent;
  return b.createIf(
      b.less(group, kernel.sizes.groups),
      [&] { return kernel.loadGroupEnd(group, previous, extent); },
      [&] { return extent; });
}

void TileScheduler::enterGroup(TileState &state, const TileState &before) {
  if (order) {
    state.begin = b.i32(0);
    std::tie(state.end, state.paddedBegin) = order->loadRange(state.group);
    return;
  }
  state.begin = before.end;
  state.end = loadEnd(state.group, before.end);
  Value length = b.sub(before.end, before.begin);
  state.paddedBegin =
      b.add(before.paddedBegin, b.roundUp(length, kernel.problem.padding));
}

TileState TileScheduler::getFirst() {
  Value zero = b.i32(0);
  Value step = kernel.numBlocks;
  // To the tile as far from the end of the next ones.
  if (order)
    step = b.sub(b.mul(b.sub(step, kernel.block), 2), 1);
  TileState none{kernel.block, step, zero, zero, zero, zero, zero},
      first = none;
  enterGroup(first, none);
  return seek(first);
}

Value TileScheduler::countTilesAlongRows(const TileState &state) {
  if (!kernel.problem.isMGrouped())
    return tilesAlongRows;
  return b.named("tiles_along_rows",
                 b.ceilDiv(b.sub(state.end, state.begin), kernel.config.rows));
}

/// Returns the tiles of the result in the state's group.
Value TileScheduler::countTiles(const TileState &state) {
  return b.mul(countTilesAlongRows(state), tilesAlongColumns);
}

/// Returns the work tiles of a group: its tiles times the number of splits.
Value TileScheduler::getGroupTiles(const TileState &state) {
  return b.mul(countTiles(state), kernel.config.splits);
}

/// Returns the state's split. Tiles of one split are consecutive, as they share
/// operands. After the last group there are no tiles; a division by zero would
/// be undefined.
Value TileScheduler::getSplit(const TileState &state) {
  return b.divU(b.sub(state.tile, state.firstTile),
                b.maxS(countTiles(state), 1));
}

/// Returns the first stage of a split. The first splits have one stage more if
/// they cannot be equal.
Value TileScheduler::getFirstStage(Value split) {
  int64_t splits = kernel.config.splits;
  return b.add(b.mul(split, b.divU(numStages, splits)),
               b.minS(split, b.remU(numStages, splits)));
}

Value TileScheduler::isValid(const TileState &state) {
  return b.less(state.group, numGroups);
}

/// Advances the state to the group that contains its tile, if there is one.
TileState TileScheduler::seek(TileState state) {
  KernelBuilder::Step step(b, "find_tile");
  return TileState::unpack(b.createWhile(
      state.pack(),
      [&](ValueRange values) {
        TileState here = TileState::unpackNamed(b, values);
        Value isBehind =
            b.lessEqual(b.add(here.firstTile, getGroupTiles(here)), here.tile);
        return b.bitAnd(isBehind, isValid(here));
      },
      [&](ValueRange values) {
        TileState here = TileState::unpackNamed(b, values), next = here;
        next.group = b.add(here.group, 1);
        next.firstTile = b.add(here.firstTile, getGroupTiles(here));
        enterGroup(next, here);
        return next.pack();
      }));
}

TileState TileScheduler::advance(TileState state) {
  state.tile = b.named("next_tile", b.add(state.tile, state.step));
  // To and fro: two steps are two of the grid's.
  if (order)
    state.step = b.sub(b.mul(kernel.numBlocks, 2), state.step);
  return seek(state);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Returns the bytes of the previous group in the group's first stage: loads
/// begin at multiples of 16 bytes.
Value TileScheduler::getHeadBytes(const TileState &state) {
  if (!kernel.needsHeadMask())
    return b.i32(0);
  Value bytes = b.mul(state.paddedBegin, kernel.problem.getElementBytes());
  Value isEmpty = b.equal(state.begin, state.end);
  return b.select(isEmpty, b.i32(0), b.bitAnd(bytes, kSwizzleChunkBytes - 1));
}

/// Returns the stages of the state's tile. It is at least one, so that the
/// accumulators of an empty group become zero.
Value TileScheduler::getNumStages(const TileState &state) {
  if (kernel.config.splits > 1) {
    Value split = getSplit(state);
    Value end = getFirstStage(b.add(split, 1));
    return b.maxS(b.sub(end, getFirstStage(split)), 1);
  }
  if (kernel.problem.isMGrouped())
    return b.select(b.equal(state.group, kernel.sizes.groups), b.i32(1),
                    numStages);
  Value bytes =
      b.mul(b.sub(state.end, state.begin), kernel.problem.getElementBytes());
  return b.maxS(b.ceilDiv(b.add(bytes, getHeadBytes(state)), kSwizzleRowBytes),
                1);
}

Value TileScheduler::getMeanStages() {
  if (kernel.problem.isMGrouped())
    return numStages;
  return b.ceilDiv(b.divU(extent, b.maxS(kernel.sizes.groups, 1)),
                   kernel.getStageElements());
}

/// Returns an element of the contraction from which on loads are zeros only.
/// The tensor map of an empty tensor has one element, which is skipped as well.
Value TileScheduler::getContractionPastEnd() {
  int64_t step = kSwizzleChunkBytes / kernel.problem.getElementBytes();
  return b.roundUp(b.maxS(kernel.sizes.contraction, 1), step);
}

/// Returns the row and column of a tile in its group. Rows of tiles form bands,
/// and a band is walked column by column. There are as few bands of at most
/// `raster` tiles as possible. Their heights differ by one at most, the first
/// being higher: a band of one tile would read B for that tile alone.
std::pair<Value, Value> TileScheduler::getPlace(Value inGroup,
                                                Value alongRows) {
  Value bands = b.named("bands", b.ceilDiv(alongRows, kernel.config.raster));
  Value least = b.divU(alongRows, bands);
  Value rowsOfHigher = b.mul(b.remU(alongRows, bands), b.add(least, 1));
  Value isLower = b.lessEqual(b.mul(rowsOfHigher, tilesAlongColumns), inGroup);
  Value height =
      b.named("band_height", b.select(isLower, least, b.add(least, 1)));
  Value firstRow = b.select(isLower, rowsOfHigher, 0);
  Value index = b.sub(inGroup, b.mul(firstRow, tilesAlongColumns));
  Value bandTiles = b.mul(height, tilesAlongColumns);
  Value band = b.named("band", b.divU(index, bandTiles));
  Value inBand = b.named("tile_in_band", b.remU(index, bandTiles));
  Value row =
      b.add(b.add(firstRow, b.mul(band, height)), b.remU(inBand, height));
  return {row, b.divU(inBand, height)};
}

Tile TileScheduler::getTile(const TileState &state) {
  KernelBuilder::Step step(b, "place_tile");
  const HopperMatmulConfig &config = kernel.config;
  int64_t elementBytes = kernel.problem.getElementBytes();
  Tile tile;
  tile.number = state.tile;
  tile.numStages = b.named("stages_of_tile", getNumStages(state));

  Value inGroup = b.sub(state.tile, state.firstTile);
  if (config.splits > 1)
    inGroup = b.remU(inGroup, countTiles(state));
  auto [row, column] = getPlace(inGroup, countTilesAlongRows(state));
  tile.row = b.named("tile_row", b.mul(row, config.rows));
  tile.column = b.named("tile_column", b.mul(column, config.columns));

  Value zero = b.i32(0);
  if (config.splits > 1) {
    tile.group = zero;
    tile.split = getSplit(state);
    // Fewer stages than parts leave some of these without any.
    Value first = getFirstStage(tile.split);
    tile.isZero = b.equal(first, getFirstStage(b.add(tile.split, 1)));
    tile.contraction = b.select(tile.isZero, getContractionPastEnd(),
                                b.mul(first, kernel.getStageElements()));
    return tile;
  }
  if (kernel.problem.isMGrouped()) {
    tile.scaleBegin = b.add(tile.row, state.paddedBegin);
    tile.row = b.named("first_row", b.add(tile.row, state.begin));
    tile.rowEnd = state.end;
    tile.isZero =
        b.named("is_remainder", b.equal(state.group, kernel.sizes.groups));
    tile.group = b.named("expert", b.select(tile.isZero, zero, state.group));
    tile.contraction =
        b.named("contraction_begin",
                b.select(tile.isZero, getContractionPastEnd(), zero));
    return tile;
  }
  tile.group = order ? order->loadGroup(state.group) : state.group;
  tile.scaleBegin = state.paddedBegin;
  tile.headBytes = getHeadBytes(state);
  Value begin = b.sub(state.paddedBegin,
                      b.divU(tile.headBytes, kernel.problem.getElementBytes()));
  Value length = b.sub(state.end, state.begin);
  tile.isZero = b.equal(length, 0);
  tile.contraction = b.select(tile.isZero, getContractionPastEnd(), begin);
  Value bytes = b.add(b.mul(length, elementBytes), tile.headBytes);
  Value before = b.mul(b.sub(tile.numStages, 1), kSwizzleRowBytes);
  tile.lastBytes = b.sub(bytes, before);
  return tile;
}

Value TileScheduler::forEachTile(function_ref<void(const Tile &, Value)> body,
                                 function_ref<void()> finish) {
  TileState state = getFirst();
  Value count = b.i32(0);
  if (takesSecond) {
    TileState second = advance(state);
    count = b.select(takesSecond, getNumStages(state), count);
    SmallVector<Value> chosen;
    for (auto [later, sooner] : llvm::zip_equal(second.pack(), state.pack()))
      chosen.push_back(b.select(takesSecond, later, sooner));
    state = TileState::unpack(chosen);
  }
  SmallVector<Value> init = state.pack();
  init.push_back(count);
  SmallVector<Value> ends = b.createWhile(
      init,
      [&](ValueRange values) {
        b.named("stage_count", values.back());
        return isValid(TileState::unpackNamed(b, values.drop_back()));
      },
      [&](ValueRange values) {
        TileState here = TileState::unpackNamed(b, values.drop_back());
        Tile tile = getTile(here);
        Value count = b.named("stage_count", values.back());
        body(tile, count);
        count = b.add(count, tile.numStages);
        TileState next = advance(here);
        if (takesSecond) {
          // The other walk's tile; behind the last one the count is not used.
          count = b.add(count, getNumStages(next));
          next = advance(next);
        }
        if (finish)
          finish();
        SmallVector<Value> results = next.pack();
        results.push_back(count);
        return results;
      });
  return TileState::unpack(ends).tile;
}
