//===- TransposedLoads.cpp - Operands across the contraction --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Memory has rows of an operand's lines (rows of the result, or columns), one
// for each position of the contraction; shared memory has chunks of eight
// positions of a line. A lane loads four lines of two positions, and stores a
// word of two positions to each of the four lines:
//
//                 line 4l   4l+1  4l+2  4l+3          word w of a chunk
//   position 2w     a0       a1    a2    a3     -->   a0 b0 | a1 b1 | a2 b2 ...
//   position 2w+1   b0       b1    b2    b3
//
// A wave has one chunk of 64 lines, so that it loads 128 neighbouring bytes of
// each position. Lanes 0 to 31, which store together, have four words of eight
// groups of lines: chunk c of line r lies at c ^ f(r), and the order in which a
// lane stores neighbouring lines follows from its group, so that all of them
// hit other banks.
//
// Positions behind the end of the tile's contraction are behind the range of
// their stage, and read as zero: neither operand needs a mask.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Which bytes of two words are their low halves, and their high ones.
static constexpr int64_t kLowHalves = 0x5410, kHighHalves = 0x7632;

CDNATransposedLoads::CDNATransposedLoads(CDNAMatmulKernel &kernel,
                                         const CDNATile &tile, bool isRows)
    : kernel(kernel), b(kernel.b), tile(tile), isRows(isRows),
      base(createOperandBase(kernel, tile, isRows)),
      pitch(kernel.getPitch(isRows)) {
  const CDNAMatmulConfig &config = kernel.config;
  int64_t waves = config.getWaves(), chunks = config.getChunksPerRow();
  int64_t bytes = kernel.getElementBytes();
  // Three bits of a lane are of its group of lines, then two of its word, then
  // one more of the group.
  Value group = b.bitOr(b.bitAnd(kernel.lane, 7),
                        b.shiftLeft(b.shiftRight(kernel.lane, 5), 3));
  Value line = b.mul(group, kLines);
  Value word = b.bitAnd(b.shiftRight(kernel.lane, 3), 3);
  // Which of two neighbouring lines a lane stores first: a bit of its group
  // that f does not have.
  Value parity = b.shiftRight(line, 4);
  if (!isRows)
    parity = b.bitXor(parity, b.shiftRight(line, 2));
  parity = b.bitAnd(parity, 1);
  Value isOdd = b.equal(parity, 1);
  selectors[0] = b.select(isOdd, b.i32(kHighHalves), b.i32(kLowHalves));
  selectors[1] = b.select(isOdd, b.i32(kLowHalves), b.i32(kHighHalves));

  // Waves have one chunk after the other, then those of the next lines.
  Value waveLine = b.mul(b.divU(kernel.wave, chunks), kWaveLines);
  for (int64_t round : llvm::seq(config.getRounds(isRows))) {
    Value chunk = b.add(b.remU(kernel.wave, chunks), round * waves % chunks);
    Value position = b.add(b.mul(chunk, CDNAMatmulConfig::kChunkBytes / bytes),
                           b.mul(word, kPair));
    for (int64_t i : llvm::seq(kPair))
      offsets.push_back(b.add(b.mul(b.add(position, i), b.narrow(pitch)),
                              b.mul(b.add(waveLine, line), bytes)));
    // The line that is stored first.
    Value stored = b.bitOr(line, parity);
    Value place = b.bitXor(chunk, createSwizzle(kernel, isRows, stored));
    place = b.add(b.mul(place, CDNAMatmulConfig::kChunkBytes),
                  b.mul(word, kWordBytes));
    places.push_back(
        b.add(b.mul(b.add(waveLine, stored), config.stepBytes), place));
  }
}

/// The first line of a round, of those of its wave.
int64_t CDNATransposedLoads::getFirstLine(int64_t round) const {
  return round * kernel.config.getWaves() / kernel.config.getChunksPerRow() *
         kWaveLines;
}

/// A stage has a range of its own, so that 32 bits reach all of it, however
/// long the contraction is.
BufferRange CDNATransposedLoads::createRange(Value step) {
  int64_t bytes = kernel.getElementBytes();
  Value positions = b.i32(kernel.config.stepBytes / bytes);
  if (!kernel.hasWholeStages())
    positions = b.minS(b.divU(b.sub(tile.endBytes, step), bytes), positions);
  Value left = b.minS(tile.getLeft(isRows), kernel.config.getLines(isRows));
  // Pitches are multiples of a chunk, and bases are.
  Value width = b.roundUp(b.mul(left, bytes), CDNAMatmulConfig::kChunkBytes);
  Value size = b.add(b.mul(b.sub(positions, 1), b.narrow(pitch)), width);
  Value first = b.mul(b.widen(b.divU(step, bytes)), pitch);
  return BufferRange(b, b.offsetBytes(base, first), b.widen(size))
      .onlyIf(b, b.less(step, tile.endBytes));
}

SmallVector<Value> CDNATransposedLoads::load(MatmulHalf half, Value step) {
  int64_t firstOfHalf = half.isSecond * kernel.config.getHalf(isRows);
  BufferRange range = createRange(step);
  SmallVector<Value> loaded;
  for (auto [i, offset] : llvm::enumerate(offsets)) {
    int64_t first = firstOfHalf + getFirstLine(i / kPair);
    loaded.push_back(
        range.load(b, VectorType::get(kLines / 2, b.getI32Type()),
                   b.add(offset, first * kernel.getElementBytes())));
  }
  return loaded;
}

SmallVector<Value> CDNATransposedLoads::transpose(ArrayRef<Value> loaded) {
  SmallVector<Value> words;
  for (size_t i = 0; i < loaded.size(); i += kPair) {
    SmallVector<Value> low = b.unpackWords(loaded[i]);
    SmallVector<Value> high = b.unpackWords(loaded[i + 1]);
    for (int64_t stored : llvm::seq(kLines))
      words.push_back(b.permuteBytes(low[stored / 2], high[stored / 2],
                                     selectors[stored % 2]));
  }
  return words;
}

/// Bits 0 and 1 of a line are those of an address alone, but that f has bit 1,
/// too. Registers hold the place of one line: the others are not the same in
/// all stages, so that LLVM computes them each time.
SmallVector<Value> CDNATransposedLoads::createPlaces(Value stage) {
  int64_t stepBytes = kernel.config.stepBytes;
  SmallVector<Value> all;
  for (auto [round, place] : llvm::enumerate(places)) {
    Value first = b.add(place, stage);
    for (int64_t i : llvm::seq(kLines)) {
      int64_t bits = i * stepBytes + i / 2 * CDNAMatmulConfig::kChunkBytes;
      all.push_back(
          b.add(b.bitXor(first, bits), getFirstLine(round) * stepBytes));
    }
  }
  return all;
}
