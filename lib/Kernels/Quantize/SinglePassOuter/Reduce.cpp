//===- Reduce.cpp - Magnitudes of tiles in the ring -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Warp w of the four reads chunks 2w and 2w + 1 (16 bytes) of every line: each
// lane four lines, 32 apart. A lane keeps the largest magnitudes of its columns
// until the block's last tile of a panel; then the warp combines them and posts
// eight words.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Chunks of 16 bytes of a line that a warp reads, and words in them.
static constexpr int64_t kChunks = 2;
static constexpr int64_t kWords = kChunks * 4;
// All warps together read whole lines.
static_assert(SinglePassOuterTile::kReduceWarps * kChunks == kLineChunks);

namespace {
class ReduceBuilder {
public:
  ReduceBuilder(SinglePassOuterKernel &kernel, Value warp);

  void build();

private:
  int64_t getLinesPerLane() const { return kLines / b.getSubgroupSize(); }
  SmallVector<Value> reduce(const TileRecord &record, Value stage,
                            ValueRange largest);
  void post(const TileRecord &record, ValueRange largest);
  void storeScalesOfEmptySegments();

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value warp;
  /// The lane's lines, and the offset in a stage of the warp's first chunk of
  /// each.
  SmallVector<Value> lines, offsets;
};
} // namespace

ReduceBuilder::ReduceBuilder(SinglePassOuterKernel &kernel, Value warp)
    : k(kernel), b(kernel.b), warp(warp) {
  for (int64_t i : llvm::seq(getLinesPerLane())) {
    Value line = b.add(k.lane, i * b.getSubgroupSize());
    lines.push_back(line);
    offsets.push_back(k.getChunkOffset(line, b.mul(warp, kChunks)));
  }
}

/// Returns the elementwise maximum of `largest` and the magnitudes of the
/// tile's rows, in chunks.
SmallVector<Value> ReduceBuilder::reduce(const TileRecord &record, Value stage,
                                         ValueRange largest) {
  KernelBuilder::Step step(b, "reduce_tile");
  Value tile = k.getStage(stage);
  SmallVector<Value> chunks;
  for (Value offset : offsets)
    for (int64_t chunk : llvm::seq(kChunks))
      chunks.push_back(
          b.load(b.getWordsType(),
                 b.offsetBytes(tile, b.bitXor(offset, chunk * kChunkBytes)),
                 kChunkBytes));
  k.releaseStage(stage);

  Value low = TileRecord::kLow.get(b, record.bounds);
  Value high = TileRecord::kHigh.get(b, record.bounds);
  SmallVector<Value> result(largest);
  for (auto [i, line] : llvm::enumerate(lines)) {
    Value isData = k.both(b.lessEqual(low, line), b.less(line, high));
    // In one mask, what is not data and the signs.
    Value word = b.select(isData, b.i32(~k.getSignBits()), 0);
    Value mask = vector::BroadcastOp::create(b, b.getWordsType(), word);
    for (int64_t chunk : llvm::seq(kChunks)) {
      Value elements = chunks[i * kChunks + chunk];
      result[chunk] = k.math.createMax(
          result[chunk], arith::AndIOp::create(b, elements, mask));
    }
  }
  return result;
}

void ReduceBuilder::post(const TileRecord &record, ValueRange largest) {
  KernelBuilder::Step step(b, "post_magnitudes");
  SmallVector<Value> words;
  for (Value chunk : largest)
    llvm::append_range(words, b.unpackWords(chunk));
  // Lanes 4i to 4i + 3 share word i.
  int64_t sharing = b.getSubgroupSize() / kWords;
  Value word = k.createScatteredMax(words, b.getSubgroupSize() / 2);
  for (int64_t mask = sharing / 2; mask > 0; mask /= 2)
    word = k.math.createMax(word, b.shuffleXor(word, mask));
  Value index = b.add(b.mul(warp, kWords), b.divU(k.lane, sharing));
  b.createIf(b.equal(b.remU(k.lane, sharing), 0), [&] {
    Value offset = b.add(b.mul(b.widenSigned(record.slot), kLineBytes),
                         b.mul(b.widenSigned(index), kWordBytes));
    b.storeRelaxed(b.bitOr(word, k.getSignBits()),
                   b.offsetBytes(k.partialSlots, offset));
  });
}

void ReduceBuilder::build() {
  SmallVector<Value> zero(kChunks, b.zeroWords());
  RingPosition begin = k.ring.getPosition(b.i32(0));
  SmallVector<Value> init{begin.stage, begin.parity};
  llvm::append_range(init, zero);
  b.createWhile(
      init,
      [&](ValueRange carried) {
        k.ring.createWaitFull({carried[0], carried[1]});
        return k.negate(k.isEnd(carried[0]));
      },
      [&](ValueRange carried) {
        RingPosition position{carried[0], carried[1]};
        ValueRange largest = carried.drop_front(2);
        TileRecord record = k.loadTileRecord(position.stage);
        SmallVector<Value> reduced = b.createIf(
            tile_flags::kReduce.isSet(b, record.flags),
            [&] { return reduce(record, position.stage, largest); },
            [&] {
              k.releaseStage(position.stage);
              return llvm::to_vector_of<Value>(largest);
            });
        SmallVector<Value> kept = b.createIf(
            tile_flags::kPost.isSet(b, record.flags),
            [&] {
              post(record, reduced);
              b.createIf(k.isFirstLane,
                         [&] { k.signal(PanelEvent::Posted, record.panel); });
              return zero;
            },
            [&] { return reduced; });
        RingPosition next = k.ring.getNext(position);
        SmallVector<Value> result{next.stage, next.parity};
        llvm::append_range(result, kept);
        return result;
      });
  storeScalesOfEmptySegments();
}

/// Stores the scales of empty segments, which have no panel. Blocks share the
/// segments. Lanes together reduce the ends of all segments between two of the
/// block's.
void ReduceBuilder::storeScalesOfEmptySegments() {
  if (!k.problem.jagged)
    return;
  auto max = [&](Value lhs, Value rhs) -> Value { return b.maxS(lhs, rhs); };
  Value scale = k.math.createScale(b.i32(0));
  Value first = b.add(b.mul(warp, b.getSubgroupSize()), k.lane);
  b.createFor(
      k.block, k.segments, k.numBlocks, b.i32(0),
      [&](Value segment, Value end) {
        Value seen = b.maxS(b.sub(segment, k.numBlocks), 0);
        Value largest =
            b.createFor(b.add(seen, k.lane), segment, b.getSubgroupSize(), end,
                        [&](Value before, Value largest) {
                          return b.maxS(largest, k.loadEnd(before));
                        });
        Value previousEnd = b.reduceLanes(largest, /*stride=*/1, max);
        b.createIf(b.lessEqual(k.loadEnd(segment), previousEnd), [&] {
          b.createFor(
              first, k.columns,
              SinglePassOuterTile::kReduceWarps * b.getSubgroupSize(),
              [&](Value column) { k.storeScale(segment, column, scale); });
        });
        return previousEnd;
      });
}

void fp8moe::buildSinglePassOuterReduce(SinglePassOuterKernel &kernel,
                                        Value warp) {
  ReduceBuilder(kernel, warp).build();
}
