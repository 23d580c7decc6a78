//===- TileMessages.cpp - What a producer says of its tiles ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Words that are stored and loaded at once.
static constexpr int64_t kVectorWords = 4;

/// Index of the number of stages in a message. Every tile has a stage, so 0
/// means that there are no more tiles.
static constexpr int64_t kNumStages = 0;

TileMessages::TileMessages(GroupedMatmulKernel &kernel, const StageRing &ring)
    : kernel(kernel), b(kernel.b), ring(ring) {}

/// Returns the members of a tile that are sent. isZero is sent as an i32.
SmallVector<Value Tile::*> TileMessages::getMembers() const {
  SmallVector<Value Tile::*> members{
      &Tile::numStages, &Tile::row, &Tile::column, &Tile::group, &Tile::isZero};
  if (kernel.config.splits > 1)
    members.push_back(&Tile::split);
  else if (kernel.problem.isMGrouped())
    members.push_back(&Tile::rowEnd);
  else
    members.append({&Tile::headBytes, &Tile::lastBytes});
  assert(static_cast<int64_t>(members.size()) * kWordBytes <=
             kTileMessageBytes &&
         "a message has room for them");
  return members;
}

Value TileMessages::getPointer(Value stage, int64_t word) {
  Value offset = b.add(b.mul(stage, kTileMessageBytes),
                       kernel.memory.messages + word * kWordBytes);
  return ring.inStage(stage, kernel.getShared(offset));
}

void TileMessages::store(ArrayRef<Value> words, Value stage) {
  for (int64_t first = 0; first < static_cast<int64_t>(words.size());
       first += kVectorWords) {
    SmallVector<Value> vector(words.drop_front(first).take_front(kVectorWords));
    vector.resize(kVectorWords, b.i32(0));
    b.store(b.packWords(vector), getPointer(stage, first),
            kVectorWords * kWordBytes);
  }
}

SmallVector<Value> TileMessages::load(Value stage) {
  SmallVector<Value> words;
  int64_t count = getMembers().size();
  for (int64_t first = 0; first < count; first += kVectorWords)
    words.append(
        b.unpackWords(b.load(b.getWordsType(), getPointer(stage, first),
                             kVectorWords * kWordBytes)));
  words.resize(count);
  return words;
}

void TileMessages::send(const Tile &tile, RingPosition first) {
  // A consumer that has released the stage has read the message before it.
  ring.createWaitEmpty(first);
  SmallVector<Value> words;
  for (Value Tile::*member : getMembers())
    words.push_back(member == &Tile::isZero
                        ? b.zeroExtend(b.getI32Type(), tile.*member)
                        : tile.*member);
  store(words, first.stage);
}

void TileMessages::sendEnd(RingPosition position) {
  ring.createWaitEmpty(position);
  store(b.i32(0), position.stage);
  kernel::ArriveExpectTxOp::create(b, ring.getFullBarrier(position.stage),
                                   b.i32(0));
}

void TileMessages::forEachTile(
    function_ref<void(const Tile &tile, Value stageCount)> body,
    function_ref<void()> finish) {
  auto receive = [&](Value stageCount) {
    RingPosition position = ring.getPosition(stageCount);
    ring.createWaitFull(position);
    SmallVector<Value> words = load(position.stage);
    // A lane may release the stage for all of its warp.
    b.syncSubgroup();
    // ptxas computes descriptors in registers of the warp only if it knows that
    // all lanes have the same stage, and go through the loops together.
    words[kNumStages] = b.shuffleIndex(words[kNumStages], b.i32(0));
    return words;
  };
  SmallVector<Value> init = receive(b.i32(0));
  init.push_back(b.i32(0));
  b.createWhile(
      init,
      [&](ValueRange values) { return b.less(b.i32(0), values[kNumStages]); },
      [&](ValueRange values) {
        Tile tile;
        for (auto [member, word] :
             llvm::zip_equal(getMembers(), values.drop_back()))
          tile.*member = member == &Tile::isZero ? b.isNonZero(word) : word;
        body(tile, values.back());
        finish();
        Value stageCount = b.add(values.back(), tile.numStages);
        // Only now: a stage that has not come would hold up the result.
        SmallVector<Value> next = receive(stageCount);
        next.push_back(stageCount);
        return next;
      });
}
