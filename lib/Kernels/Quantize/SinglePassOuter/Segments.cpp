//===- Segments.cpp - Which segments tiles are in -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Where segments are all alike, that of a tile is a quotient. The lanes of the
// producer warp look at 32 jagged segments at a time: by prefix sums
// and maxima they work out where each begins, which tiles it has and how they
// are assigned. Then each lane searches them for that of its tile.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Producer.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Panels of more tiles than these, of which four together have at most
/// kInterleaveTilesPerBlock a block, are interleaved. Shorter ones are read
/// next to their neighbours anyway, and blocks do not stay side by side for
/// long: 64 experts of 2048x7168 fall from 98% to 90% of a copy.
static constexpr int64_t kInterleaveTiles = 96;
static constexpr int64_t kInterleaveTilesPerBlock = 6;

/// Most tiles of a panel whose scales a fix-up collects again. In a fix-up, the
/// second of two segments writes the sector that both share, with the scales of
/// the first.
static constexpr int64_t kFixUpTiles = kShortTiles;
static_assert(kFixUpTiles <= kInterleaveTiles,
              "entries of a segment before a seam lie behind each other");
static_assert(kFixUpTiles <= kTripSlots,
              "they are read in one trip, without relays");

/// Returns the window before the first segment: 32 segments without tiles.
SegmentState ProducerBuilder::getFirstWindow() {
  SegmentState window;
  for (auto member : SegmentState::members())
    window.*member = b.i32(0);
  window.segment = b.sub(k.lane, b.getSubgroupSize());
  return window;
}

/// Returns `value` of the previous lane. The first lane gets that of the last
/// lane of `last`.
Value ProducerBuilder::shiftLanes(Value value, Value last) {
  Value below = b.shiftLanes(value, k.lane);
  return b.select(k.isFirstLane, getLastLane(last), below);
}

/// Returns the end of a segment's rows; `end` is that of its predecessor.
/// Returns `end` if there is no such segment.
Value ProducerBuilder::createEndAfter(Value segment, Value end) {
  Value exists = b.less(segment, k.segments);
  Value loaded = k.loadEnd(b.minS(segment, b.sub(k.segments, 1)));
  return b.select(exists, b.maxS(loaded, end), end);
}

/// Returns an i1: whether the segment after [start, end), which ends at
/// `nextEnd`, writes the sector that both share. Both segments evaluate it.
Value ProducerBuilder::createCut(Value start, Value end, Value tiles,
                                 Value nextEnd) {
  if (hasPadding())
    return b.i1(false);
  Value sector = b.bitAnd(end, -kSectorRows);
  Value isShared = b.compare(arith::CmpIPredicate::ne, sector, end);
  // Where columns begin anywhere, its owner has rows above it to write, too.
  Value reach = b.select(k.isAligned, b.i32(0), kChunkBytes);
  Value hasTwoOwners = k.both(b.lessEqual(b.add(start, reach), sector),
                              b.lessEqual(b.add(sector, kSectorRows), nextEnd));
  // Panels that exceed the ring are loaded otherwise (issueLargePanel).
  Value nextRows = b.sub(nextEnd, sector);
  Value fitsNext = b.less(
      nextRows, b.mul(k.numBlocks, b.mul(b.sub(k.usedStages, 1), kLines)));
  Value isShort =
      k.both(b.lessEqual(tiles, kFixUpTiles), b.less(b.i32(0), tiles));
  return k.both(k.both(isShared, hasTwoOwners), k.both(fitsNext, isShort));
}

/// Computes a segment's tiles, panels and shape from its length and its first
/// output row. Flags that depend on its neighbours are not set.
void ProducerBuilder::divideSegment(SegmentState &state) {
  Value extent = b.add(b.roundUp(state.length, k.problem.outputPadding),
                       b.bitAnd(state.outStart, kSectorRows - 1));
  Value tiles =
      b.select(b.less(b.i32(0), state.length), b.ceilDiv(extent, kLines), 0);
  Value panels = b.ceilDiv(k.columns, k.getTileColumns());
  constexpr int64_t mask = kInterleavedPanels - 1;
  assert(kInterleaveTilesPerBlock <=
             getStagesWithRowsAbove(k.tile) + k.tile.getTilesInTeams() &&
         "a block has all of its tiles of a set before the scales of one");
  Value isInterleaved =
      k.both(k.both(b.less(b.i32(kInterleaveTiles), tiles),
                    b.lessEqual(b.shiftLeft(tiles, kInterleaveLog),
                                b.mul(k.numBlocks, kInterleaveTilesPerBlock))),
             b.equal(b.bitAnd(k.numBlocks, mask), 0));

  state.panels =
      b.select(isInterleaved, b.bitAnd(b.add(panels, mask), ~mask), panels);
  state.tiles = tiles;
  state.shape = kInterleaveBits.place(
      b, b.select(isInterleaved, b.i32(kInterleaveLog), 0));
}

//===----------------------------------------------------------------------===//
// Segments that are all alike
//===----------------------------------------------------------------------===//

/// Returns the state that all uniform segments have in common.
SegmentState ProducerBuilder::createLikeSegment() {
  SegmentState like;
  for (auto member : SegmentState::members())
    like.*member = b.i32(0);
  like.length = k.rows;
  divideSegment(like);
  return like;
}

SegmentState ProducerBuilder::findLikeSegment(Value tileNumber,
                                              const SegmentState &like) {
  SegmentState state = like;
  Value tiles = b.mul(getNumbers(like.tiles), like.panels);
  state.segment = b.divU(tileNumber, tiles);
  state.firstTile = b.mul(state.segment, tiles);
  return state;
}

//===----------------------------------------------------------------------===//
// Jagged segments
//===----------------------------------------------------------------------===//

/// Returns the window of the 32 segments after `last`.
SegmentState ProducerBuilder::createNextWindow(const SegmentState &last) {
  int64_t padding = k.problem.outputPadding;
  auto sum = [&](Value lhs, Value rhs) -> Value { return b.add(lhs, rhs); };
  auto max = [&](Value lhs, Value rhs) -> Value { return b.maxS(lhs, rhs); };
  SegmentState next;
  next.segment = b.add(last.segment, b.getSubgroupSize());
  Value lastEnd = b.add(last.start, last.length);
  Value end = createEndAfter(next.segment, getLastLane(lastEnd));
  end = b.scanLanes(end, k.lane, max);
  next.start = shiftLanes(end, lastEnd);
  next.length = b.sub(end, next.start);
  Value nextEnd = createEndAfter(b.add(next.segment, 1), end);
  if (hasPadding()) {
    Value lastOutEnd = b.add(last.outStart, b.roundUp(last.length, padding));
    Value outEnd =
        b.add(getLastLane(lastOutEnd),
              b.scanLanes(b.roundUp(next.length, padding), k.lane, sum));
    next.outStart = shiftLanes(outEnd, lastOutEnd);
  } else {
    next.outStart = next.start;
  }
  divideSegment(next);
  Value lastTileEnd = getTileEnd(last);
  Value tileEnd = b.add(
      getLastLane(lastTileEnd),
      b.scanLanes(b.mul(getNumbers(next.tiles), next.panels), k.lane, sum));
  next.firstTile = shiftLanes(tileEnd, lastTileEnd);
  next.previousFirst = shiftLanes(next.firstTile, last.firstTile);
  next.previousTiles = shiftLanes(next.tiles, last.tiles);

  Value cut = kCutBit.setIf(b, createCut(next.start, end, next.tiles, nextEnd));
  Value needsFixUp = kCutBit.isSet(b, shiftLanes(cut, last.shape));
  next.shape =
      b.bitOr(next.shape, b.bitOr(kFixUpBit.setIf(b, needsFixUp), cut));
  return next;
}

/// Returns the segment of `window` that contains a lane's tile. It is the last
/// one that begins at or before it, as segments without tiles begin where the
/// next one does.
SegmentState ProducerBuilder::lookUp(Value tileNumber,
                                     const SegmentState &window) {
  Value index = b.i32(0);
  for (int64_t step = b.getSubgroupSize() / 2; step > 0; step /= 2) {
    Value candidate = b.add(index, step);
    Value first = b.shuffleIndex(window.firstTile, candidate);
    index = b.select(b.lessEqual(first, tileNumber), candidate, index);
  }
  SegmentState state;
  for (auto member : SegmentState::members())
    state.*member = b.shuffleIndex(window.*member, index);
  return state;
}

/// Returns the segments of the lanes' tiles. Tile numbers never decrease from
/// lane to lane and from call to call. Advances `window` as far as needed.
SegmentState ProducerBuilder::findSegments(Value tileNumber,
                                           SegmentState &window) {
  constexpr size_t kSize = SegmentState::kSize;
  SegmentState none = window;
  none.segment = k.segments;
  SmallVector<Value> init = window.toValues();
  llvm::append_range(init, none.toValues());
  SmallVector<Value> result = b.createWhile(
      init, ValueRange(init).getTypes(),
      [&](ValueRange carried) {
        SegmentState window =
            SegmentState::fromValues(carried.take_front(kSize));
        SegmentState found =
            SegmentState::fromValues(carried.drop_front(kSize));
        Value isBehind =
            b.lessEqual(getLastLane(getTileEnd(window)), tileNumber);
        Value isHere = k.both(k.negate(isBehind), k.negate(isInRange(found)));
        SegmentState candidate = lookUp(tileNumber, window);
        SmallVector<Value> values = window.toValues();
        for (auto member : SegmentState::members())
          values.push_back(b.select(isHere, candidate.*member, found.*member));
        Value hasMore =
            b.less(b.add(getLastLane(window.segment), 1), k.segments);
        return std::pair(k.both(hasMore, b.voteAny(isBehind)), values);
      },
      [&](ValueRange carried) {
        SmallVector<Value> values =
            createNextWindow(
                SegmentState::fromValues(carried.take_front(kSize)))
                .toValues();
        llvm::append_range(values, carried.drop_front(kSize));
        return values;
      });
  window = SegmentState::fromValues(ValueRange(result).take_front(kSize));
  return SegmentState::fromValues(ValueRange(result).drop_front(kSize));
}
