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
    SmallVector<Value> largest = b.createFor(
        b.getLane(), index, b.getSubgroupSize(), b.i32(0),
        [&](Value other, ValueRange carried) {
          return SmallVector<Value>{larger(carried[0], loadEnd(other))};
        });
    return b.reduceLanes(largest[0], 1, larger);
  }

  /// The start of `index`, and the number of paddings that the segments before
  /// it fill. Every step takes as many segments as there are lanes.
  std::pair<Value, Value> createPaddedStart(Value index, int64_t padding) {
    Value lane = b.truncate(b.getI32Type(), b.getLane());
    SmallVector<Value> sums = b.createFor(
        b.i64(0), index, b.getSubgroupSize(), {b.i32(0), b.i32(0)},
        [&](Value first, ValueRange carried) {
          Value end = loadEndIfBelow(b.add(first, b.getLane()), index);
          // Lanes past `index` repeat the last end: their segments are empty.
          end = b.scanLanesIdempotent(
              b.maxS(end, carried[0]), lane,
              [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); });
          Value before = b.shiftLanes(end, lane);
          before = b.select(b.equal(lane, 0), carried[0], before);
          Value blocks = b.ceilDiv(b.sub(end, before), padding);
          return SmallVector<Value>{
              b.shuffleIndex(end, b.i32(b.getSubgroupSize() - 1)),
              b.add(carried[1], blocks)};
        });
    Value blocks = b.reduceLanes(
        sums[1], 1, [&](Value lhs, Value rhs) { return b.add(lhs, rhs); });
    return {sums[0], blocks};
  }
};
} // namespace

Segment fp8moe::createSegmentBounds(KernelBuilder &b, Value offsets,
                                    Value index, Value count, Value rows,
                                    int64_t padding) {
  Value rows32 = b.truncate(b.getI32Type(),
                            b.minS(rows, std::numeric_limits<int32_t>::max()));
  BoundsBuilder bounds{b, offsets, rows32};
  Value start, blocks;
  if (padding > 1)
    std::tie(start, blocks) = bounds.createPaddedStart(index, padding);
  else
    start = bounds.createStart(index);
  Value end = b.maxS(bounds.loadEndIfBelow(index, count), start);

  auto widen = [&](Value value) { return b.zeroExtend(b.getI64Type(), value); };
  Segment segment;
  segment.start = widen(start);
  segment.length = widen(b.sub(end, start));
  segment.paddedStart =
      padding > 1 ? b.mul(widen(blocks), padding) : segment.start;
  return segment;
}
