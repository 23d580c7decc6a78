//===- SegmentBounds.cpp - Where a jagged group begins and ends -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/SegmentBounds.h"

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
    Value end = b.load(b.getI32Type(), pointer, sizeof(int32_t),
                       /*readOnly=*/true);
    return b.clamp(end, 0, rows);
  }

  /// The end of `index` if `index` < `limit`, else 0.
  Value loadEndIfBelow(Value index, Value limit) {
    return b
        .createIf(
            b.less(index, limit), {b.getI32Type()},
            [&] { return SmallVector<Value>{loadEnd(index)}; },
            [&] { return SmallVector<Value>{b.i32(0)}; })
        .front();
  }

  /// The largest end before `index`: its start, as ends never decrease.
  Value createStart(Value index) {
    auto larger = [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); };
    auto enlarge = [&](Value other, ValueRange carried) {
      return SmallVector<Value>{larger(carried[0], loadEnd(other))};
    };
    // Subgroups with scalar registers are large: mostly one trip is enough, and
    // a loop that is unrolled only begins later.
    bool isRare = b.getHooks().hasScalarRegisters();
    SmallVector<Value> largest =
        isRare ? b.createRareFor(b.getLane(), index, b.getSubgroupSize(),
                                 b.i32(0), enlarge)
               : b.createFor(b.getLane(), index, b.getSubgroupSize(), b.i32(0),
                             enlarge);
    return b.reduceLanes(largest[0], 1, larger);
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
    Value lane = b.truncate(b.getI32Type(), b.getLane());
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
  return b.truncate(b.getI32Type(),
                    b.minS(rows, std::numeric_limits<int32_t>::max()));
}

Segment fp8moe::createSegmentBounds(KernelBuilder &b, Value offsets,
                                    Value index, Value count, Value rows,
                                    int64_t padding) {
  BoundsBuilder bounds{b, offsets, createRows32(b, rows)};
  Value start, blocks;
  if (padding > 1)
    std::tie(start, blocks) = bounds.createPaddedStart(index, padding);
  else
    start = bounds.createStart(index);
  Value end = b.maxS(bounds.loadEndIfBelow(index, count), start);
  start = b.uniform(start);
  end = b.uniform(end);

  auto widen = [&](Value value) { return b.zeroExtend(b.getI64Type(), value); };
  Segment segment;
  segment.start = widen(start);
  segment.length = widen(b.sub(end, start));
  segment.paddedStart =
      padding > 1 ? b.mul(widen(b.uniform(blocks)), padding) : segment.start;
  return segment;
}

std::pair<Value, Segment> fp8moe::findSegment(KernelBuilder &b, Value offsets,
                                              Value tile, Value count,
                                              Value rows, int64_t padding,
                                              bool emptyHaveTile,
                                              int64_t alignment) {
  BoundsBuilder bounds{b, offsets, createRows32(b, rows)};
  Value lane = b.truncate(b.getI32Type(), b.getLane());
  Value zero = b.i32(0);
  Value tile32 = b.truncate(b.getI32Type(), tile);
  // The last end and the tiles of all segments so far; then, in the lane that
  // finds it, the segment's number plus one, start, length and first tile.
  SmallVector<Value> found = b.createFor(
      b.i64(0), count, b.getSubgroupSize(), SmallVector<Value>(6, zero),
      [&](Value first, ValueRange carried) {
        auto [start, end] =
            bounds.createLaneBounds(first, count, carried[0], lane);
        Value length = b.sub(end, start);
        Value tiles = b.ceilDiv(length, padding);
        if (alignment > 1) {
          Value more = b.bitAnd(start, alignment - 1);
          tiles = b.select(b.equal(length, 0), tiles,
                           b.ceilDiv(b.add(length, more), padding));
        }
        if (emptyHaveTile) {
          Value exists = b.less(b.add(first, b.getLane()), count);
          tiles = b.maxS(tiles, b.zeroExtend(b.getI32Type(), exists));
        }
        Value endTile = b.add(
            carried[1], b.scanLanes(tiles, lane, [&](Value lhs, Value rhs) {
              return b.add(lhs, rhs);
            }));
        Value firstTile = b.sub(endTile, tiles);
        Value holds =
            b.bitAnd(b.lessEqual(firstTile, tile32), b.less(tile32, endTile));
        Value number = b.add(b.add(b.truncate(b.getI32Type(), first), lane), 1);
        SmallVector<Value> next{bounds.shuffleLast(end),
                                bounds.shuffleLast(endTile)};
        Value found[] = {number, start, length, firstTile};
        for (auto [value, before] :
             llvm::zip_equal(found, carried.drop_front(2)))
          next.push_back(b.select(holds, value, before));
        return next;
      });
  auto widen = [&](Value value) { return b.zeroExtend(b.getI64Type(), value); };
  SmallVector<Value> all;
  for (Value value : ArrayRef(found).drop_front(2))
    all.push_back(b.maxOfLanes(value));
  Value isRemainder = b.equal(all[0], 0);
  Segment segment;
  segment.start = widen(b.select(isRemainder, found[0], all[1]));
  segment.length = widen(all[2]);
  segment.paddedStart =
      b.mul(widen(b.select(isRemainder, found[1], all[3])), padding);
  Value index = b.select(isRemainder, count, b.sub(widen(all[0]), 1));
  return {index, segment};
}
