//===- SegmentBounds.cpp - Where a jagged group begins and ends -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/SegmentBounds.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The rows are counted in i32 here, as the offsets are.
struct BoundsBuilder {
  KernelBuilder &b;
  Value offsets;
  /// The number of rows, at most the largest i32.
  Value rows;

  Value loadEnd(Value index) {
    Value pointer = b.offsetBytes(offsets, b.mul(index, sizeof(int32_t)));
    Value end = b.loadWord(pointer, /*readOnly=*/true);
    return b.clamp(end, 0, rows);
  }

  /// The end of `index` if `index` < `limit`, else 0.
  Value loadEndIfBelow(Value index, Value limit) {
    return b.createIf(
        b.less(index, limit), [&] { return loadEnd(index); },
        [&] { return b.i32(0); });
  }

  /// The largest end before `index`: its start, as ends never decrease.
  Value createStart(Value index) {
    auto larger = [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); };
    // Subgroups with scalar registers are large: mostly one trip is enough, and
    // a loop that is unrolled only begins later.
    bool isRare = b.getTarget().has(Feature::ScalarRegisters);
    Value largest = b.createFor(
        b.getLane(), index, b.getSubgroupSize(), b.i32(0),
        [&](Value other, Value largest) {
          return larger(largest, loadEnd(other));
        },
        isRare);
    return b.reduceLanes(largest, 1, larger);
  }

  Value shuffleLast(Value value) {
    return b.shuffleIndex(value, b.i32(b.getSubgroupSize() - 1));
  }

  /// Start and end of the segment `first` + lane. Lanes past `limit` repeat the
  /// last end: their segments are empty. `previous` is the end before `first`.
  std::pair<Value, Value> createLaneBounds(Value first, Value limit,
                                           Value previous, Value lane) {
    Value end = loadEndIfBelow(b.add(first, b.getLane()), limit);
    end = b.scanLanesIdempotent(
        b.maxS(end, previous), lane,
        [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); });
    Value before = b.shiftLanes(end, lane);
    return {b.select(b.equal(lane, 0), previous, before), end};
  }

  /// The start of `index`, and the number of paddings that the segments before
  /// it fill. Every step takes as many segments as there are lanes.
  std::pair<Value, Value> createPaddedStart(Value index, int64_t padding) {
    Value lane = b.narrow(b.getLane());
    SmallVector<Value> sums =
        b.createFor(b.i64(0), index, b.getSubgroupSize(), {b.i32(0), b.i32(0)},
                    [&](Value first, ValueRange carried) {
                      auto [before, end] =
                          createLaneBounds(first, index, carried[0], lane);
                      Value blocks = b.ceilDiv(b.sub(end, before), padding);
                      return SmallVector<Value>{shuffleLast(end),
                                                b.add(carried[1], blocks)};
                    });
    Value blocks = b.reduceLanes(
        sums[1], 1, [&](Value lhs, Value rhs) { return b.add(lhs, rhs); });
    return {sums[0], blocks};
  }
};
} // namespace

/// The rows in i32, and what is more than that counts as its largest number.
static Value createRows32(KernelBuilder &b, Value rows) {
  return b.narrow(b.minS(rows, std::numeric_limits<int32_t>::max()));
}

Segment fp8moe::createSegmentBounds(KernelBuilder &b, Value offsets,
                                    Value index, Value count, Value rows,
                                    int64_t padding) {
  KernelBuilder::Step step(b, "segment_bounds");
  BoundsBuilder bounds{b, offsets, createRows32(b, rows)};
  Value start, blocks;
  if (padding > 1)
    std::tie(start, blocks) = bounds.createPaddedStart(index, padding);
  else
    start = bounds.createStart(index);
  Value end = b.maxS(bounds.loadEndIfBelow(index, count), start);
  start = b.uniform(start);
  end = b.uniform(end);

  Segment segment;
  segment.start = b.widen(start);
  segment.length = b.widen(b.sub(end, start));
  segment.paddedStart =
      padding > 1 ? b.mul(b.widen(b.uniform(blocks)), padding) : segment.start;
  return segment;
}

/// Tiles of the segments of all lanes, which lie at `start` and have `length`
/// rows.
static Value countTiles(KernelBuilder &b, const SegmentTiling &tiling,
                        Value start, Value length, Value exists) {
  Value tiles = b.ceilDiv(length, tiling.rows);
  if (tiling.alignment > 1) {
    Value more = b.bitAnd(start, tiling.alignment - 1);
    tiles = b.select(b.equal(length, 0), tiles,
                     b.ceilDiv(b.add(length, more), tiling.rows));
  }
  if (tiling.emptyHaveTile)
    tiles = b.maxS(tiles, b.zeroExtend(b.getI32Type(), exists));
  return tiles;
}

FoundSegment fp8moe::findSegment(KernelBuilder &b, Value offsets, Value tile,
                                 Value count, Value rows,
                                 const SegmentTiling &tiling) {
  KernelBuilder::Step step(b, "find_segment");
  BoundsBuilder bounds{b, offsets, createRows32(b, rows)};
  Value lane = b.narrow(b.getLane());
  Value tile32 = b.narrow(tile);
  auto add = [&](Value lhs, Value rhs) { return b.add(lhs, rhs); };
  const bool isPadded = tiling.outputPadding > 1;
  // The loop carries sums over all segments so far: the last end, how many
  // tiles, and with padding how many paddings they fill. Then, in the lane that
  // finds the segment: its number plus one, its length, and these sums before
  // it.
  const size_t sums = 2 + isPadded;
  SmallVector<Value> found = b.createFor(
      b.i64(0), count, b.getSubgroupSize(),
      SmallVector<Value>(2 * sums + 2, b.i32(0)),
      [&](Value first, ValueRange carried) {
        b.named("first_group", first);
        static constexpr StringLiteral kNames[] = {"last_end", "tiles_before"};
        for (auto [name, sum] : llvm::zip(kNames, carried))
          b.named(name, sum);
        auto [start, end] =
            bounds.createLaneBounds(first, count, carried[0], lane);
        Value length = b.named("length", b.sub(end, start));
        Value exists = b.less(b.add(first, b.getLane()), count);
        Value tiles =
            b.named("tiles", countTiles(b, tiling, start, length, exists));
        Value endTile = b.add(carried[1], b.scanLanes(tiles, lane, add));
        Value firstTile = b.sub(endTile, tiles);
        Value holds =
            b.named("holds_tile", b.bitAnd(b.lessEqual(firstTile, tile32),
                                           b.less(tile32, endTile)));
        Value number = b.add(b.add(b.narrow(first), lane), 1);
        SmallVector<Value> next{end, endTile};
        SmallVector<Value> ofLane{number, length, start, firstTile};
        if (isPadded) {
          Value blocks = b.ceilDiv(length, tiling.outputPadding);
          next.push_back(b.add(carried[2], b.scanLanes(blocks, lane, add)));
          ofLane.push_back(b.sub(next.back(), blocks));
        }
        for (Value &sum : next)
          sum = bounds.shuffleLast(sum);
        for (auto [value, before] :
             llvm::zip_equal(ofLane, carried.drop_front(sums)))
          next.push_back(b.select(holds, value, before));
        return next;
      });
  SmallVector<Value> ofTile;
  for (Value value : ArrayRef(found).drop_front(sums))
    ofTile.push_back(b.uniform(b.maxOfLanes(value)));
  Value isRemainder = b.named("is_behind_groups", b.equal(ofTile[0], 0));
  auto getBefore = [&](size_t sum) {
    return b.widen(
        b.select(isRemainder, b.uniform(found[sum]), ofTile[2 + sum]));
  };
  FoundSegment result;
  result.index = b.named(
      "group", b.select(isRemainder, count, b.sub(b.widen(ofTile[0]), 1)));
  result.firstTileRow = b.mul(getBefore(1), tiling.rows);
  result.bounds.start = getBefore(0);
  result.bounds.length = b.widen(ofTile[1]);
  result.bounds.paddedStart = isPadded
                                  ? b.mul(getBefore(2), tiling.outputPadding)
                                  : result.bounds.start;
  return result;
}
