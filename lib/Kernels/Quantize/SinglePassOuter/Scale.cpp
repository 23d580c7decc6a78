//===- Scale.cpp - Collects magnitudes of all blocks ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A warp takes every n-th panel of the block. Eight lanes read the chunks of
// one partial slot (16 bytes each), four slots at a time; a word
// without its sign bits has not been posted yet and is read again. Only these
// warps read what others post, and only after their own block has posted: more
// readers, and reads that are too early, would fill the cache's queues. For the
// same reason few blocks read what all have posted, where many post: relays,
// whose result the others read.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/BoundedWait.h"
#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Lanes that read one partial slot, and partial slots that a warp reads at a
/// time.
static constexpr int64_t kSlotLanes = kLineBytes / kChunkBytes;
static_assert(kTripSlots * kSlotLanes % 32 == 0,
              "all lanes of a warp read as many chunks in a trip");

namespace {
class ScaleBuilder {
public:
  ScaleBuilder(SinglePassOuterKernel &kernel, Value warp);

  void build();

private:
  /// Returns the largest magnitudes of the partial slots that the lane has
  /// read: a chunk, of the lane's eighth of the columns.
  Value collect(const PanelRecord &record);
  /// Called by a relay: posts the maximum over its contributors' slots.
  void relay(const PanelRecord &record);
  struct Reads {
    SmallVector<Value> pointers, chunks;
  };
  Reads beginReads(Value pointer, Value distance, Value count);
  Value finishReads(const Reads &reads);
  /// Return the address of the lane's chunk of a partial slot, and the bytes
  /// from one contributor's chunk to the next one's.
  Value getPointer(Value slot);
  Value getDistance(Value interleave);
  Value isMissing(Value chunk);
  /// Returns the scales of the lane's word of a chunk of magnitudes.
  SmallVector<Value> createScales(Value chunk);
  void handle(Value panel, const PanelRecord &record);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value warp;
  /// Index of the lane's chunk in a partial slot, and of its first partial
  /// slot.
  Value chunkOfLane, slotOfLane;
  int64_t slotsAtOnce;
};
} // namespace

ScaleBuilder::ScaleBuilder(SinglePassOuterKernel &kernel, Value warp)
    : k(kernel), b(kernel.b), warp(warp),
      chunkOfLane(b.remU(k.lane, kSlotLanes)),
      slotOfLane(b.divU(k.lane, kSlotLanes)),
      slotsAtOnce(b.getSubgroupSize() / kSlotLanes) {}

Value ScaleBuilder::isMissing(Value chunk) {
  SmallVector<Value> words = b.unpackWords(chunk);
  Value all = words[0];
  for (Value word : ArrayRef(words).drop_front())
    all = b.bitAnd(all, word);
  int64_t signs = k.getSignBits();
  return b.compare(arith::CmpIPredicate::ne, b.bitAnd(all, signs), signs);
}

/// Starts the loads of the lane's chunks of the first `count` partial slots (at
/// most kTripSlots) from `pointer` on, which are `distance` bytes apart.
ScaleBuilder::Reads ScaleBuilder::beginReads(Value pointer, Value distance,
                                             Value count) {
  Value posted =
      vector::BroadcastOp::create(b, b.getWordsType(), b.i32(k.getSignBits()));
  Reads reads;
  Value slot = slotOfLane;
  Value source = b.offsetBytes(
      pointer, b.mul(b.widenSigned(slot), b.widenSigned(distance)));
  Value step = b.widenSigned(b.mul(distance, slotsAtOnce));
  for (int64_t i = 0; i < kTripSlots / slotsAtOnce; ++i) {
    reads.pointers.push_back(source);
    reads.chunks.push_back(b.createIf(
        b.less(slot, count),
        [&] {
          return kernel::LoadWordsOp::create(b, /*acquire=*/false, source);
        },
        [&] { return posted; }));
    slot = b.add(slot, slotsAtOnce);
    source = b.offsetBytes(source, step);
  }
  return reads;
}

/// Waits until all chunks are posted. Returns the largest magnitudes in them.
Value ScaleBuilder::finishReads(const Reads &reads) {
  SmallVector<Value> complete = createBoundedWait(
      b, reads.chunks,
      [&](ValueRange carried) {
        Value missing = b.i1(false);
        for (Value chunk : carried)
          missing = b.bitOr(missing, isMissing(chunk));
        return b.voteAny(missing);
      },
      [&](ValueRange carried) {
        SmallVector<Value> next;
        for (auto [chunk, pointer] : llvm::zip_equal(carried, reads.pointers))
          next.push_back(b.createIf(
              isMissing(chunk),
              [&, pointer = pointer] {
                return kernel::LoadWordsOp::create(b, /*acquire=*/false,
                                                   pointer);
              },
              [&, chunk = chunk] { return chunk; }));
        return next;
      });
  Value largest = complete.front();
  for (Value chunk : ArrayRef(complete).drop_front())
    largest = k.math.createMax(largest, chunk);
  return largest;
}

Value ScaleBuilder::getPointer(Value slot) {
  Value offset = b.add(b.mul(b.widenSigned(slot), kLineBytes),
                       b.mul(b.widenSigned(chunkOfLane), kChunkBytes));
  return b.offsetBytes(k.partialSlots, offset);
}

void ScaleBuilder::relay(const PanelRecord &record) {
  Value distance = getDistance(record.interleave);
  Value own = b.offsetBytes(
      getPointer(record.slot),
      b.mul(b.widenSigned(record.contributor), b.widenSigned(distance)));
  Value count =
      b.minS(b.sub(record.contributors, record.contributor), kTripSlots);
  Value largest = finishReads(beginReads(own, distance, count));
  SmallVector<Value> words = b.unpackWords(largest);
  for (Value &word : words)
    for (int64_t mask = b.getSubgroupSize() / 2; mask >= kSlotLanes; mask /= 2)
      word = k.math.createMax(word, b.shuffleXor(word, mask));
  b.createIf(b.equal(slotOfLane, 0), [&] {
    for (auto [i, word] : llvm::enumerate(words))
      b.storeRelaxed(word, b.offsetBytes(own, kLineBytes + i * kWordBytes));
  });
}

Value ScaleBuilder::getDistance(Value interleave) {
  return b.shiftLeft(b.i32(kLineBytes), b.add(interleave, kSpanLog));
}

Value ScaleBuilder::collect(const PanelRecord &record) {
  Value first = getPointer(record.slot);
  Value distance = getDistance(record.interleave);
  auto collectDirectly = [&] {
    return finishReads(beginReads(first, distance, record.contributors));
  };
  auto collectFromRelays = [&] {
    Value isRelay = b.equal(b.remU(record.contributor, kTripSlots), 0);
    b.createIf(isRelay, [&] { relay(record); });
    Value relays = b.ceilDiv(record.contributors, kTripSlots);
    Value relayDistance = b.mul(distance, kTripSlots);
    Value pointer = b.offsetBytes(first, kLineBytes);
    return b.createFor(
        b.i32(0), relays, kTripSlots, b.zeroWords(),
        [&](Value begin, Value largest) {
          Value source =
              b.offsetBytes(pointer, b.mul(b.widenSigned(begin),
                                           b.widenSigned(relayDistance)));
          return k.math.createMax(
              largest, finishReads(beginReads(source, relayDistance,
                                              b.sub(relays, begin))));
        });
  };
  return b.createIf(b.lessEqual(record.contributors, kTripSlots),
                    collectDirectly, collectFromRelays);
}

SmallVector<Value> ScaleBuilder::createScales(Value chunk) {
  // Word i of the chunk goes to the lanes that began with partial slot i.
  Value word =
      k.createScatteredMax(b.unpackWords(chunk), b.getSubgroupSize() / 2);
  SmallVector<Value> scales;
  word = b.bitAnd(word, ~k.getSignBits());
  for (Value magnitude : k.math.unpackWord(word))
    scales.push_back(k.math.createScale(magnitude));
  return scales;
}

void ScaleBuilder::handle(Value panel, const PanelRecord &record) {
  // The previous segment has usually posted already: its words are read
  // meanwhile.
  Value needsFixUp = b.isNonZero(record.previousContributors);
  Reads fixUpReads;
  if (k.haveFixUps())
    fixUpReads = beginReads(getPointer(record.previousSlot),
                            getDistance(/*interleave=*/b.i32(0)),
                            record.previousContributors);
  k.wait(PanelEvent::Posted, panel);
  SmallVector<Value> scales = createScales(collect(record));
  int64_t perWord = scales.size();
  Value columnInTile = b.mul(b.add(b.mul(chunkOfLane, 4), slotOfLane), perWord);
  auto storeShared = [&](ArrayRef<Value> scales, Value pointer) {
    for (auto [i, scale] : llvm::enumerate(scales))
      b.storeWord(scale, b.offsetBytes(pointer, b.mul(b.add(columnInTile, i),
                                                      sizeof(float))));
  };
  storeShared(scales, k.getPanelScales(panel));
  if (k.haveFixUps())
    b.createIf(needsFixUp, [&] {
      storeShared(createScales(finishReads(fixUpReads)),
                  k.getFixUpScales(panel));
    });
  k.signal(PanelEvent::Scales, panel);

  Value isMine = b.equal(record.contributor, 0);
  for (auto [i, scale] : llvm::enumerate(scales)) {
    Value column = b.add(b.add(record.column, columnInTile), i);
    b.createIf(k.both(isMine, b.less(column, k.columns)), [&, scale = scale] {
      k.storeScale(record.segment, column, scale);
    });
  }
}

void ScaleBuilder::build() {
  b.createIf(
      b.equal(warp, 0), [&] { k.meetOtherBlocks(); },
      [&] { k.waitForGridReady(); });
  b.syncSubgroup();
  b.createWhile(
      warp,
      [&](ValueRange carried) {
        k.wait(PanelEvent::Published, carried[0]);
        return k.negate(k.isEndPanel(carried[0]));
      },
      [&](ValueRange carried) {
        handle(carried[0], k.loadPanelRecord(carried[0]));
        return SmallVector<Value>{
            b.add(carried[0], SinglePassOuterTile::kScaleWarps)};
      });
}

void fp8moe::buildSinglePassOuterScale(SinglePassOuterKernel &kernel,
                                       Value warp) {
  ScaleBuilder(kernel, warp).build();
}
