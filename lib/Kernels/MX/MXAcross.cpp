//===- MXAcross.cpp - Blocks along the other axis -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXOuter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::maxOfBlockLines(KernelBuilder &b, ArrayRef<Value> magnitudes) {
  Value largest = magnitudes.front();
  for (Value magnitude : magnitudes.drop_front())
    largest = b.maxU(largest, magnitude);
  int64_t lanes = kMXBlock / magnitudes.size();
  for (int64_t mask = 1; mask < lanes; mask *= 2)
    largest = b.maxU(largest, b.shuffleXor(largest, mask));
  return largest;
}

MXAcross::MXAcross(MXKernel &kernel, int64_t numLines)
    : kernel(kernel), b(kernel.b), numLines(numLines),
      output(kernel, numLines, /*alongLines=*/!kernel.toLines,
             /*hasMore=*/false, "tile_across"),
      scaleTile(b.allocateShared(kScaleTileBytes, "scales_across")),
      factors(b.allocateShared(kBlocks * kSegmentTile * sizeof(float),
                               "factors")) {}

/// Words of magnitudes of this thread's lines at each position of its block: as
/// many neighbouring positions as elements fit a word.
SmallVector<Value> MXAcross::packMagnitudes(ArrayRef<Value> chunks) {
  SmallVector<Value> result;
  for (Value chunk : chunks) {
    if (numLines == 1) {
      Value magnitudes = kernel.math.createAbsMax(b.zeroWords(), chunk);
      llvm::append_range(result, b.unpackWords(magnitudes));
      continue;
    }
    // Two lines: the halves of the words of two positions are brought together.
    SmallVector<Value> words = b.unpackWords(chunk), lines;
    for (int64_t half : {0x5410, 0x7632})
      for (size_t i = 0; i < words.size(); i += 2)
        lines.push_back(b.permuteBytes(words[i], words[i + 1], b.i32(half)));
    Value low = b.packWords({lines[0], lines[1], b.i32(0), b.i32(0)});
    Value high = b.packWords({lines[2], lines[3], b.i32(0), b.i32(0)});
    Value magnitudes = kernel.math.createAbsMax(
        kernel.math.createAbsMax(b.zeroWords(), low), high);
    llvm::append_range(
        result, ArrayRef<Value>(b.unpackWords(magnitudes)).take_front(2));
  }
  return result;
}

/// The larger elements of each pair of words.
SmallVector<Value> MXAcross::getMax(ArrayRef<Value> lhs, ArrayRef<Value> rhs) {
  SmallVector<Value> result;
  for (size_t first = 0; first < lhs.size(); first += kWordsPerChunk) {
    auto pack = [&](ArrayRef<Value> words) {
      SmallVector<Value> part(
          words.slice(first, std::min<size_t>(kWordsPerChunk, words.size())));
      part.resize(kWordsPerChunk, b.i32(0));
      return b.packWords(part);
    };
    llvm::append_range(
        result, b.unpackWords(kernel.math.createMax(pack(lhs), pack(rhs))));
  }
  result.resize(lhs.size());
  return result;
}

/// Each lane gets the word of magnitudes of its number among the lanes that
/// have the block's lines: the largest of all of them. In each step a lane
/// gives away the half of its words that the lane opposite will have.
Value MXAcross::exchangeMagnitudes(Value lane, ArrayRef<Value> chunks) {
  KernelBuilder::Step step(b, "exchange_magnitudes");
  SmallVector<Value> words = packMagnitudes(chunks);
  for (int64_t mask = words.size() / 2; mask > 0; mask /= 2) {
    Value isUpper = b.equal(b.bitAnd(b.divU(lane, mask), 1), 1);
    SmallVector<Value> kept, received;
    for (int64_t i : llvm::seq(mask)) {
      Value low = words[i], high = words[i + mask];
      kept.push_back(b.select(isUpper, high, low));
      received.push_back(b.shuffleXor(b.select(isUpper, low, high), mask));
    }
    words = getMax(kept, received);
  }
  return words.front();
}

Value MXAcross::getFactor(Value line, Value position) {
  Value index = b.add(b.mul(b.divU(line, kMXBlock), kSegmentTile), position);
  return b.offsetBytes(factors, b.mul(index, sizeof(float)));
}

Value MXAcross::getFirstPosition(Value line, Value block) {
  Value lane = b.divU(b.remU(line, kMXBlock), numLines);
  return b.add(b.mul(block, kMXBlock), b.mul(lane, numLines));
}

void MXAcross::putNoScales(const MXTile &tile, Value line, Value block) {
  if (!kernel.problem.tiledScales)
    return;
  MXTile own = kernel.getTile(tile.tile);
  for (int64_t i : llvm::seq(numLines))
    kernel.putScale(own, scaleTile, b.add(getFirstPosition(line, block), i),
                    b.divU(line, kMXBlock), b.i32(0));
}

void MXAcross::putFactors(const MXTile &tile, Value line, Value block,
                          ArrayRef<Value> chunks, ArrayRef<Value> magnitudes) {
  MXTile own = kernel.getTile(tile.tile);
  SmallVector<Value> largest(magnitudes);
  if (!kernel.problem.square) {
    Value lane = b.divU(b.remU(line, kMXBlock), numLines);
    largest = kernel.math.unpackWord(exchangeMagnitudes(lane, chunks));
  }
  MXKernel::Scales scales = kernel.createScales(largest);
  Value blockLines = b.divU(line, kMXBlock);
  for (int64_t i : llvm::seq(numLines)) {
    Value position = b.add(getFirstPosition(line, block), i);
    kernel.putScale(own, scaleTile, position, blockLines, scales.bytes[i]);
    Value factor = scales.multipliers[i];
    if (kernel.packsFactors)
      factor = kernel.math.packFactors(factor, factor);
    b.store(factor, getFactor(line, position), sizeof(float));
  }
  b.syncSubgroup();
}

void MXAcross::putBlock(Value line, Value block, ArrayRef<Value> chunks) {
  KernelBuilder::Step step(b, "put_block");
  Value firstPosition = b.mul(block, kMXBlock);
  output.putBlock(line, block, chunks, [&](Value chunk) {
    Value first = b.add(firstPosition, b.mul(chunk, kPositions));
    SmallVector<Value> words = b.unpackWords(
        b.load(b.getWordsType(), getFactor(line, first), kVectorBytes));
    if (kernel.packsFactors)
      return words;
    SmallVector<Value> ofElements;
    for (Value word : words)
      ofElements.append(numLines, b.bitcast(b.getF32Type(), word));
    return ofElements;
  });
}

void MXAcross::store(const MXTile &tile) {
  MXTile own = kernel.getTile(tile.tile);
  kernel.storeScales(own, scaleTile);
  // Its lines are the positions of the threads' lines.
  output.store({own.tile, own.elements, own.lines, own.input, own.output,
                own.alignedOutput});
}
