//===- GridBarrier.cpp - A barrier of all blocks --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/GridBarrier.h"
#include "Kernels/Emit/NVIDIA/BoundedWait.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

//
// The flags are not reset between launches, so their values are arbitrary: only
// changes count. Block 0 leads. There is one flag `release`, and a flag
// `arrival` for every other block i.
//
//   begin  block i:  old = release, last = arrival[i]
//          block 0:  old = release, first[i] = arrival[i], for every i
//   (each block writes what others must see, and meets at a block barrier)
//   wait   block i:  repeat: arrival[i] = ++last    until release != old
//          block 0:  wait until arrival[i] != first[i], for every i
//                    release = old + 1
//
// No block leaves early. Only block 0 of this launch writes `release`, after
// every arrival[i] has changed since it began, and only block i of this launch
// writes that. Block i notices the release, as a fence is between its reading
// `old` and its first writing arrival[i]. What block 0 finds first may be what
// block i has just written; but block i writes another value each time, and
// goes on.
//
// Stores are relaxed. One fence orders everything that the whole block did
// before its block barrier ahead of arrival[i]. Lanes of block 0 acquire the
// arrivals and meet in a barrier of the warp; the fence of the first lane
// carries what all of them acquired to `release`. Block i acquires that.
//
// While the memory is busy with the first tiles, each trip to it takes one to
// two microseconds, and four or five are needed one after the other: the fence
// of block i, from arrival[i] to block 0 (two acquiring loads beyond 128
// blocks), its fence, and from `release` to block i.
//

static constexpr int64_t kArrivalsOffset = 128;
static_assert(kArrivalsOffset + kMaxBarrierBlocks * kWordBytes ==
              kGridBarrierBytes);

/// Words in a vector, and vectors in which a warp of 32 lanes reads those of
/// all blocks.
static constexpr int64_t kWords = 4;
static constexpr int64_t kVectors = 2;
static_assert(kMaxBarrierBlocks == 32 * kWords * kVectors);

Value GridBarrier::getArrival(Value index) {
  Value bytes = b.mul(b.widen(index), kWordBytes);
  return b.offsetBytes(b.offsetBytes(memory, kArrivalsOffset), bytes);
}

/// The place of vector `index` of the lane's arrival flags.
Value GridBarrier::getArrivals(int64_t index) {
  return getArrival(getFirstBlock(index));
}

/// The block of the first word in vector `index` of the lane.
Value GridBarrier::getFirstBlock(int64_t index) {
  return b.add(b.mul(lane, kWords), index * kWords * b.getSubgroupSize());
}

GridBarrierState GridBarrier::createBegin() {
  Value release = b.loadRelaxed(memory);
  GridBarrierState state{release};
  state.append(b.createIf(
      isLeader(),
      [&] {
        SmallVector<Value> vectors;
        for (int64_t i : llvm::seq(kVectors))
          vectors.push_back(kernel::LoadWordsOp::create(b, /*acquire=*/false,
                                                        getArrivals(i)));
        return vectors;
      },
      [&] {
        // Repeats the flag in every word of the vectors: both branches of
        // createIf must return the same types.
        Value last = b.loadRelaxed(getArrival(block));
        Value words = vector::BroadcastOp::create(b, b.getWordsType(), last);
        return SmallVector<Value>(kVectors, words);
      }));
  return state;
}

GridBarrierState GridBarrier::createNoState() {
  GridBarrierState state{b.i32(0)};
  state.append(kVectors, b.zeroWords());
  return state;
}

void GridBarrier::lead(Value old, ArrayRef<Value> first) {
  // One vector after the other: acquiring loads do not overlap, and when the
  // first vector is complete the next one mostly is, too.
  for (auto [index, vector] : llvm::enumerate(first)) {
    SmallVector<Value> firstWords = b.unpackWords(vector);
    auto isAnyMissing = [&, index = index]() -> Value {
      SmallVector<Value> words = b.unpackWords(
          kernel::LoadWordsOp::create(b, /*acquire=*/true, getArrivals(index)));
      Value any = b.i1(false);
      for (int64_t i : llvm::seq(kWords)) {
        Value other = b.add(getFirstBlock(index), i);
        Value exists =
            b.bitAnd(b.less(other, numBlocks), b.less(b.i32(0), other));
        any = b.bitOr(any, b.bitAnd(exists, b.equal(words[i], firstWords[i])));
      }
      return b.voteAny(any);
    };
    // Weights often have 128 blocks.
    Value exists =
        b.less(b.i32(index * kWords * b.getSubgroupSize()), numBlocks);
    b.createIf(exists, [&] { createBoundedWait(b, isAnyMissing); });
  }
  // Each lane has acquired from the blocks that it saw; the first one releases
  // what all of them did.
  b.syncSubgroup();
  b.createIf(b.equal(lane, 0), [&] {
    b.createDeviceFence();
    b.storeRelaxed(b.add(old, 1), memory);
  });
}

void GridBarrier::follow(Value old, Value last) {
  b.createIf(b.equal(lane, 0), [&] {
    b.createDeviceFence();
    createBoundedWait(
        b, b.add(last, 1),
        [&](ValueRange next) {
          b.storeRelaxed(next[0], getArrival(block));
          return b.equal(b.loadAcquire(memory), old);
        },
        [&](ValueRange next) { return SmallVector<Value>{b.add(next[0], 1)}; });
  });
  b.syncSubgroup();
}

void GridBarrier::createWait(const GridBarrierState &state) {
  Value old = state.front();
  ArrayRef<Value> arrivals = ArrayRef(state).drop_front();
  b.createIf(
      isLeader(), [&] { lead(old, arrivals); },
      [&] { follow(old, b.unpackWords(arrivals.front()).front()); });
}
