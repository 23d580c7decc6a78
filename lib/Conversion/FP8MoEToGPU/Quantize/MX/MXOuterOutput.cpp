//===- MXOuterOutput.cpp - Data of a tile on their way out ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/MX/MXOuterOutput.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// What memory is read and written in.
static constexpr int64_t kSectorBytes = 32;

OuterOutput::OuterOutput(MXKernel &kernel, int64_t numLines, bool isAlong,
                         bool hasMore, StringRef name)
    : kernel(kernel), b(kernel.b), numLines(numLines), hasMore(hasMore) {
  if (isAlong)
    alongLines.emplace(b, numLines, hasMore, name);
  else
    acrossLines.emplace(b, name);
}

/// The bytes of a chunk: a word for each line, or the words of the positions.
SmallVector<Value> OuterOutput::convert(Value chunk, ArrayRef<Value> factors) {
  if (kernel.packsFactors) {
    chunk = kernel.createProduct(chunk, factors);
    factors = {};
  }
  SmallVector<Value> values = kernel.math.unpackValues(chunk);
  if (!alongLines)
    return kernel.createFP8(values, factors);
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(numLines)) {
    SmallVector<Value> ofLine, factorsOfLine;
    for (size_t at = i; at < values.size(); at += numLines) {
      ofLine.push_back(values[at]);
      if (!factors.empty())
        factorsOfLine.push_back(factors[at]);
    }
    words.push_back(kernel.createFP8(ofLine, factorsOfLine).front());
  }
  return words;
}

void OuterOutput::putWords(Value line, Value block, Value number,
                           ArrayRef<Value> words) {
  if (alongLines) {
    Value word = b.add(b.mul(block, kChunks), number);
    for (auto [i, bytes] : llvm::enumerate(words))
      alongLines->storeWord(bytes, b.add(line, i), word);
    return;
  }
  Value first = b.add(b.mul(block, kMXBlock), b.mul(number, kPositions));
  for (int64_t i : llvm::seq(kPositions)) {
    int64_t byte = i * numLines;
    Value bytes = b.shiftRight(words[byte / kWordBytes], byte % kWordBytes * 8);
    acrossLines->store(b.truncate(b.getIntegerType(8 * numLines), bytes),
                       b.add(first, i), line);
  }
}

void OuterOutput::putChunk(Value line, Value block, Value number, Value chunk,
                           ArrayRef<Value> factors) {
  putWords(line, block, number, convert(chunk, factors));
}

void OuterOutput::putBlock(Value line, Value block, ArrayRef<Value> chunks,
                           FactorsOf getFactors) {
  if (!alongLines) {
    for (auto [i, chunk] : llvm::enumerate(chunks))
      putWords(line, block, b.i64(i), convert(chunk, getFactors(b.i64(i))));
    return;
  }
  // Chunks are taken in turn, so that each is unpacked and gone before the
  // next.
  Value firstChunk = b.mul(block, kChunksPerBlock);
  for (int64_t i : llvm::seq(kChunksPerBlock)) {
    SmallVector<SmallVector<Value>> ofLines(numLines);
    for (int64_t j : llvm::seq(kWordsPerChunk)) {
      int64_t number = i * kWordsPerChunk + j;
      for (auto [ofLine, word] : llvm::zip_equal(
               ofLines, convert(chunks[number], getFactors(b.i64(number)))))
        ofLine.push_back(word);
    }
    for (auto [j, ofLine] : llvm::enumerate(ofLines))
      alongLines->store(b.packWords(ofLine), b.add(line, j),
                        b.add(firstChunk, i));
  }
}

void OuterOutput::store(const MXTile &tile) {
  if (!alongLines)
    storeElements(tile);
  else if (hasMore)
    storeShiftedLines(tile);
  else
    storeLines(tile);
}

void OuterOutput::storeLines(const MXTile &tile) {
  b.createFor(b.getThread(), b.i64(kSegmentTile * kChunksPerLine),
              b.getNumThreads(), [&](Value index) {
                Value inTile = b.divU(index, kChunksPerLine);
                Value chunk = b.remU(index, kChunksPerLine);
                Value line = b.add(tile.lines.first, inTile);
                b.createIf(tile.lines.contains(b, line), [&] {
                  storeChunk(
                      b, tile.output,
                      b.add(tile.elements.first, b.mul(chunk, kVectorBytes)),
                      line, alongLines->load(inTile, chunk),
                      tile.elements.range);
                });
              });
}

/// Groups along lines begin at any element, and so do their tiles. A tile
/// stores the sectors of memory that begin in it, and what is before them in a
/// group.
void OuterOutput::storeShiftedLines(const MXTile &tile) {
  b.createIf(
      tile.alignedOutput.vectorizable,
      [&] {
        storeWholeChunks(tile);
        storeCutChunks(tile);
      },
      [&] {
        MXTile unaligned = tile;
        unaligned.output.vectorizable = b.i1(false);
        storeLines(unaligned);
      });
}

/// How many bytes lie before the first sector that begins in a tile.
static Value countBytesBefore(KernelBuilder &b, const MXTile &tile) {
  return b.bitAnd(b.sub(b.i64(0), tile.elements.first), kSectorBytes - 1);
}

void OuterOutput::storeWholeChunks(const MXTile &tile) {
  Value before = countBytesBefore(b, tile);
  Value inChunk =
      b.truncate(b.getI32Type(), b.bitAnd(before, kVectorBytes - 1));
  Value chunk = b.remU(b.getThread(), kChunksPerLine);
  Value inTile = b.divU(b.getThread(), kChunksPerLine);
  Value inLine = b.add(before, b.mul(chunk, kVectorBytes));
  Value position = b.add(tile.elements.first, inLine);
  Value line = b.add(tile.lines.first, inTile);
  const Plane &plane = tile.alignedOutput;
  Value pointer = createElementPointer(b, plane, position, line);
  Value source = alongLines->getAddress(inTile, b.divU(inLine, kVectorBytes));
  int64_t step = b.getNumThreads() / kChunksPerLine;
  auto storeLine = [&](int64_t i) {
    Value address = alongLines->getBelow(source, i);
    Value words = createWordsAt(
        b, alongLines->loadAt(address),
        alongLines->loadAt(b.offsetBytes(address, kVectorBytes)), inChunk);
    b.createIf(b.less(b.add(line, i), tile.lines.range.high), [&] {
      b.store(words, b.offsetBytes(pointer, b.mul(plane.otherStride, i)),
              kVectorBytes);
    });
  };
  Value isWhole =
      b.lessEqual(b.add(position, kVectorBytes), tile.elements.range.high);
  b.createIf(isWhole, [&] {
    int64_t i = 0;
    for (; i + step <= kSegmentTile; i += step)
      storeLine(i);
    if (i < kSegmentTile)
      b.createIf(b.less(b.add(inTile, i), kSegmentTile), [&] { storeLine(i); });
  });
}

/// What a group has before its first sector, and its last bytes where they are
/// no chunk.
void OuterOutput::storeCutChunks(const MXTile &tile) {
  auto narrow = [&](Value value) { return b.truncate(b.getI32Type(), value); };
  Value first = tile.elements.first;
  Value before = narrow(countBytesBefore(b, tile));
  Value length = narrow(b.minS(b.sub(tile.elements.range.high, first),
                               kSegmentTile + kSectorBytes));
  auto widen = [&](Value value) -> Value {
    return arith::ExtSIOp::create(b, b.getI64Type(), value);
  };
  // Of each line so many chunks, `start` bytes behind the tile's first one or
  // before it.
  auto storeChunks = [&](int64_t count, Value start) {
    b.createFor(
        b.getThread(), b.i64(count * kSegmentTile), b.getNumThreads(),
        [&](Value index) {
          Value inTile = b.remU(index, kSegmentTile);
          Value line = b.add(tile.lines.first, inTile);
          Value number = narrow(b.divU(index, kSegmentTile));
          Value inLine = b.add(start, b.mul(number, kVectorBytes));
          Value low = b.maxS(b.sub(b.i32(0), inLine), 0);
          Value high = b.minS(b.sub(length, inLine), kVectorBytes);
          b.createIf(
              b.bitAnd(b.less(low, high), tile.lines.contains(b, line)), [&] {
                // Before the tile there is nothing, and so any bytes do.
                Value from = b.maxS(inLine, 0);
                Value chunk =
                    b.zeroExtend(b.getI64Type(), b.divU(from, kVectorBytes));
                Value next =
                    b.zeroExtend(b.getI64Type(),
                                 b.divU(b.maxS(b.add(inLine, kVectorBytes), 0),
                                        kVectorBytes));
                Value words = createWordsAt(b, alongLines->load(inTile, chunk),
                                            alongLines->load(inTile, next),
                                            b.bitAnd(inLine, kVectorBytes - 1));
                storeBytes(b,
                           createElementPointer(b, tile.alignedOutput,
                                                b.add(first, widen(inLine)),
                                                line),
                           words, low, high);
              });
        });
  };
  auto isSome = [&](Value value) {
    return b.compare(arith::CmpIPredicate::ne, value, 0);
  };
  b.createIf(
      b.bitAnd(isSome(before), b.equal(first, tile.elements.range.low)), [&] {
        storeChunks(kSectorBytes / kVectorBytes, b.sub(before, kSectorBytes));
      });
  Value behind = b.sub(length, before);
  Value inLast = b.remU(behind, kVectorBytes);
  Value hasLast =
      b.bitAnd(b.bitAnd(b.lessEqual(b.i32(0), behind), isSome(inLast)),
               b.less(behind, kSegmentTile));
  b.createIf(hasLast, [&] { storeChunks(1, b.sub(length, inLast)); });
}

void OuterOutput::storeElements(const MXTile &tile) {
  b.createFor(
      b.getThread(), b.i64(kSegmentTile * kChunksPerLine), b.getNumThreads(),
      [&](Value index) {
        Value inTile = b.divU(index, kChunksPerLine);
        Value lineInTile = b.mul(b.remU(index, kChunksPerLine), kVectorBytes);
        Value position = b.add(tile.elements.first, inTile);
        b.createIf(tile.elements.contains(b, position), [&] {
          storeChunk(b, tile.output, b.add(tile.lines.first, lineInTile),
                     position, acrossLines->load(inTile, lineInTile),
                     tile.lines.range);
        });
      });
}
