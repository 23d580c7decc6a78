//===- MXOuterOutput.cpp - Data of a tile on their way out ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXOuter.h"

#include "Kernels/Emit/ShiftedLines.h"

using namespace mlir;
using namespace mlir::fp8moe;

static_assert(ShiftedLines::kSectorBytes <= kMXBlock,
              "the block behind a tile has what its last sectors lack");

Value OuterOutput::getChunk(Value line, Value chunk) {
  Value thread = b.divU(line, numLines), place = line;
  if (hasMore)
    place =
        b.add(b.mul(b.remU(line, numLines), kSegmentTile / numLines), thread);
  else
    chunk = b.bitXor(chunk, b.remU(thread, kChunksPerLine));
  return b.offsetBytes(memory,
                       b.add(b.mul(place, pitch), b.mul(chunk, kVectorBytes)));
}

Value OuterOutput::getElements(Value element, Value line) {
  return b.offsetBytes(memory, b.add(b.mul(element, pitch), line));
}

/// The bytes of a chunk: a word for each line, or the words of the positions.
SmallVector<Value> OuterOutput::convert(Value chunk, ArrayRef<Value> factors) {
  KernelBuilder::Step step(b, "convert_chunk");
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

void OuterOutput::putChunk(Value line, Value block, Value number, Value chunk,
                           ArrayRef<Value> factors) {
  SmallVector<Value> words = convert(chunk, factors);
  if (alongLines) {
    Value word = b.add(b.mul(block, kChunks), number);
    for (auto [i, bytes] : llvm::enumerate(words)) {
      Value place = getChunk(b.add(line, i), b.divU(word, kWordsPerChunk));
      Value inChunk = b.mul(b.remU(word, kWordsPerChunk), kWordBytes);
      b.storeWord(bytes, b.offsetBytes(place, inChunk));
    }
    return;
  }
  Value first = b.add(b.mul(block, kMXBlock), b.mul(number, kPositions));
  for (int64_t i : llvm::seq(kPositions)) {
    int64_t byte = i * numLines;
    Value bytes = b.shiftRight(words[byte / kWordBytes], byte % kWordBytes * 8);
    b.store(b.truncate(b.getIntegerType(8 * numLines), bytes),
            getElements(b.add(first, i), line), numLines);
  }
}

void OuterOutput::putBlock(Value line, Value block, ArrayRef<Value> chunks,
                           FactorsOf getFactors) {
  if (!alongLines) {
    for (auto [i, chunk] : llvm::enumerate(chunks))
      putChunk(line, block, b.i64(i), chunk, getFactors(b.i64(i)));
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
      b.store(b.packWords(ofLine),
              getChunk(b.add(line, j), b.add(firstChunk, i)), kVectorBytes);
  }
}

void OuterOutput::store(const MXTile &tile) {
  const TileExtent &along = alongLines ? tile.elements : tile.lines;
  const TileExtent &across = alongLines ? tile.lines : tile.elements;
  auto loadChunk = [&](Value inTile, Value chunk) {
    Value place = alongLines ? getChunk(inTile, chunk)
                             : getElements(inTile, b.mul(chunk, kVectorBytes));
    return b.load(b.getWordsType(), place, kVectorBytes);
  };
  auto store = [&](Value inTile, Value chunk, Value first, Value other) {
    storeChunk(b, tile.output, first, other, loadChunk(inTile, chunk),
               along.range);
  };
  auto storeChunks = [&] { kernel.forEachChunk(along, across, store); };
  // Rows of a width that is no multiple of 16 are rare, and to shift them would
  // take registers from the rest of the kernel.
  if (!alongLines)
    return storeChunks();
  // Where groups divide lines (hasMore), tiles may begin at any element. Chunks
  // of alignedOutput begin at multiples of the chunk size.
  const Plane &output = hasMore ? tile.alignedOutput : tile.output;
  storeLines(b,
             {output, tile.lines, tile.elements, kSegmentTile, kSegmentTile,
              hasMore ? ShiftedLines::kSectorBytes : 0, loadChunk},
             storeChunks);
}
