//===- MXOuter.cpp - Blocks across the contiguous dimension ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A thread has the block of each of a few neighbouring lines in registers. Data
// go through workgroup memory, so that threads store 16 bytes.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/Quantize/MX/MXKernel.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// What a thread loads of a position; 32 of them are in registers.
static constexpr int64_t kLoadBytes = 4;
static constexpr int64_t kLoadWords = kLoadBytes / kWordBytes;
/// Positions whose words fill a chunk.
static constexpr int64_t kPositions = kVectorBytes / kLoadBytes;
static constexpr int64_t kBlocks = kSegmentTile / kMXBlock;
static constexpr int64_t kChunksPerLine = kSegmentTile / kVectorBytes;
static constexpr int64_t kChunksPerBlock = kMXBlock / kVectorBytes;

namespace {

/// The bytes of a tile, line by line. Chunks of 16 bytes are permuted in a
/// line, so that eight threads that write the same chunk of their lines, or
/// read a line, meet in no bank.
class LineTile {
public:
  LineTile(KernelBuilder &b, int64_t linesPerThread)
      : b(b), linesPerThread(linesPerThread),
        memory(b.allocateWorkgroup(kSegmentTile * kSegmentTile, "tile")) {}

  Value load(Value line, Value chunk) {
    return b.load(b.getWordsType(), getAddress(line, chunk), kVectorBytes);
  }
  void store(Value words, Value line, Value chunk) {
    b.store(words, getAddress(line, chunk), kVectorBytes);
  }

private:
  Value getAddress(Value line, Value chunk) {
    Value permuted =
        b.bitXor(chunk, b.remU(b.divU(line, linesPerThread), kChunksPerLine));
    return b.offsetBytes(memory, b.add(b.mul(line, kSegmentTile),
                                       b.mul(permuted, kVectorBytes)));
  }

  KernelBuilder &b;
  int64_t linesPerThread;
  Value memory;
};

class OuterBuilder {
public:
  explicit OuterBuilder(MXKernel &kernel)
      : kernel(kernel), b(kernel.b),
        numLines(kLoadBytes / kernel.math.getInputBytes()) {}

  void build();

private:
  /// Words of the thread's lines in all positions of its block.
  SmallVector<Value> loadBlock(const MXTile &tile);
  SmallVector<Value> createMagnitudes(ArrayRef<Value> chunks);
  void quantizeTile(const MXTile &tile);
  void storeAlongLines(const MXTile &tile, ArrayRef<Value> chunks,
                       ArrayRef<Value> multipliers);
  void storeShiftedChunk(const MXTile &tile, LineTile &shared, Value inTile,
                         Value chunk);
  void storeAcrossLines(const MXTile &tile, ArrayRef<Value> chunks,
                        ArrayRef<Value> multipliers);

  Value getFirstLine(const MXTile &tile) {
    return b.add(tile.lines.first, line);
  }
  Value getFirstElement(const MXTile &tile) {
    return b.add(tile.elements.first, b.mul(block, kMXBlock));
  }
  /// Whether the thread's lines of a matrix may be accessed at once.
  Value isWhole(const MXTile &tile, const Plane &plane) {
    Value end = b.add(getFirstLine(tile), numLines);
    return b.bitAnd(plane.vectorizable,
                    b.lessEqual(end, tile.lines.range.high));
  }

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  /// The thread's first line and its block in a tile.
  Value line, block;
};

} // namespace

SmallVector<Value> OuterBuilder::loadBlock(const MXTile &tile) {
  const Plane &plane = tile.input;
  auto elementType = b.getIntegerType(plane.elementBytes * 8);
  // Loads behind the last line or element repeat it.
  SmallVector<Value> positions;
  for (int64_t i : llvm::seq(kMXBlock))
    positions.push_back(b.minS(b.add(getFirstElement(tile), i),
                               b.sub(tile.elements.range.high, 1)));
  auto loadVectors = [&] {
    SmallVector<Value> words;
    auto pair = VectorType::get(kLoadWords, b.getI32Type());
    for (Value position : positions) {
      Value loaded = b.load(
          pair, createElementPointer(b, plane, getFirstLine(tile), position),
          kLoadBytes, /*readOnly=*/true);
      for (int64_t i : llvm::seq(kLoadWords))
        words.push_back(vector::ExtractOp::create(b, loaded, i));
    }
    return words;
  };
  auto loadElements = [&] {
    SmallVector<Value> words;
    for (Value position : positions) {
      SmallVector<Value> elements;
      for (int64_t i : llvm::seq(numLines)) {
        Value index = b.minS(b.add(getFirstLine(tile), i),
                             b.sub(tile.lines.range.high, 1));
        elements.push_back(
            b.load(elementType, createElementPointer(b, plane, index, position),
                   plane.elementBytes, /*readOnly=*/true));
      }
      llvm::append_range(words, b.joinElements(elements));
    }
    return words;
  };
  SmallVector<Type> types(kMXBlock * kLoadWords, b.getI32Type());
  SmallVector<Value> words =
      b.createIf(isWhole(tile, plane), types, loadVectors, loadElements);
  SmallVector<Value> chunks;
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  for (size_t i = 0; i < words.size(); i += kWords)
    chunks.push_back(b.packWords(ArrayRef(words).slice(i, kWords)));
  return chunks;
}

/// The largest of each line, of which a chunk has the elements of several
/// positions.
SmallVector<Value> OuterBuilder::createMagnitudes(ArrayRef<Value> chunks) {
  Value largest = b.zeroWords();
  for (Value chunk : chunks)
    largest = kernel.math.createAbsMax(largest, chunk);
  SmallVector<Value> parts = kernel.math.unpackMagnitudes(largest);
  SmallVector<Value> magnitudes(ArrayRef(parts).take_front(numLines));
  for (size_t i = numLines; i < parts.size(); ++i)
    magnitudes[i % numLines] = b.maxU(magnitudes[i % numLines], parts[i]);
  return magnitudes;
}

void OuterBuilder::quantizeTile(const MXTile &tile) {
  SmallVector<Value> chunks = loadBlock(tile);
  MXKernel::Scales scales = kernel.createScales(createMagnitudes(chunks));
  for (auto [i, byte] : llvm::enumerate(scales.bytes))
    kernel.storeScale(tile, b.add(line, i), block, byte);
  if (kernel.toLines)
    storeAlongLines(tile, chunks, scales.multipliers);
  else
    storeAcrossLines(tile, chunks, scales.multipliers);
}

void OuterBuilder::storeAlongLines(const MXTile &tile, ArrayRef<Value> chunks,
                                   ArrayRef<Value> multipliers) {
  // A word holds four positions of a line. Chunks are taken in turn, so that
  // each is unpacked and gone before the next.
  SmallVector<SmallVector<Value>> words(numLines);
  constexpr int64_t kChunksPerWord = kWordBytes / kPositions;
  for (size_t first = 0; first < chunks.size(); first += kChunksPerWord) {
    SmallVector<Value> values;
    for (Value chunk : chunks.slice(first, kChunksPerWord))
      llvm::append_range(values, kernel.math.unpackValues(chunk));
    for (int64_t i : llvm::seq(numLines)) {
      SmallVector<Value> ofLine;
      for (size_t at = i; at < values.size(); at += numLines)
        ofLine.push_back(values[at]);
      SmallVector<Value> factors(kWordBytes, multipliers[i]);
      words[i].push_back(kernel.math.createQuantize(ofLine, factors).front());
    }
  }

  LineTile shared(b, numLines);
  // Threads may still read the block's previous tile.
  b.createBarrier();
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  Value firstChunk = b.mul(block, kChunksPerBlock);
  for (auto [i, ofLine] : llvm::enumerate(words))
    for (int64_t chunk : llvm::seq(kChunksPerBlock))
      shared.store(b.packWords(ArrayRef(ofLine).slice(kWords * chunk, kWords)),
                   b.add(line, i), b.add(firstChunk, chunk));
  b.createBarrier();
  // Lines that begin at no multiple of a chunk fill a part of one more.
  bool isShifted = kernel.problem.groups == MXGroups::Elements;
  int64_t chunksPerLine = kChunksPerLine + isShifted;
  int64_t total = kSegmentTile * chunksPerLine;
  for (int64_t first = 0; first < total; first += b.getNumThreads()) {
    Value index = b.add(b.getThread(), first);
    Value inTile = b.divU(index, chunksPerLine);
    Value isStored =
        b.bitAnd(b.less(index, total),
                 tile.lines.contains(b, b.add(tile.lines.first, inTile)));
    b.createIf(isStored, [&] {
      Value chunk = b.remU(index, chunksPerLine);
      if (isShifted)
        storeShiftedChunk(tile, shared, inTile, chunk);
      else
        storeChunk(b, tile.output,
                   b.add(tile.elements.first, b.mul(chunk, kVectorBytes)),
                   b.add(tile.lines.first, inTile), shared.load(inTile, chunk),
                   tile.elements.range);
    });
  }
}

/// Chunk `chunk` of a line, counted from the aligned address at or before the
/// tile's first element on.
void OuterBuilder::storeShiftedChunk(const MXTile &tile, LineTile &shared,
                                     Value inTile, Value chunk) {
  Value first = tile.elements.first;
  Value shift = b.bitAnd(first, kVectorBytes - 1);
  // The chunks before and behind the tile have nothing that is stored.
  Value before = shared.load(inTile, b.maxS(b.sub(chunk, 1), 0));
  Value words = shared.load(inTile, b.minS(chunk, kChunksPerLine - 1));
  Value shifted = b.packWords(
      createShiftedWords(b, b.unpackWords(before), b.unpackWords(words),
                         b.truncate(b.getI32Type(), shift)));
  IndexRange range{
      first, b.minS(b.add(first, kSegmentTile), tile.elements.range.high)};
  storeChunk(b, tile.alignedOutput,
             b.add(b.sub(first, shift), b.mul(chunk, kVectorBytes)),
             b.add(tile.lines.first, inTile), shifted, range);
}

void OuterBuilder::storeAcrossLines(const MXTile &tile, ArrayRef<Value> chunks,
                                    ArrayRef<Value> multipliers) {
  // Words of the bytes of one position, or of two.
  SmallVector<Value> words;
  for (Value chunk : chunks) {
    SmallVector<Value> values = kernel.math.unpackValues(chunk), factors;
    for (size_t i = 0; i < values.size(); ++i)
      factors.push_back(multipliers[i % numLines]);
    llvm::append_range(words, kernel.math.createQuantize(values, factors));
  }
  Value memory = b.allocateWorkgroup(kSegmentTile * kSegmentTile, "tile");
  auto getAddress = [&](Value position, Value lineInTile) {
    return b.offsetBytes(memory,
                         b.add(b.mul(position, kSegmentTile), lineInTile));
  };
  // Threads may still read the block's previous tile.
  b.createBarrier();
  for (int64_t i : llvm::seq(kMXBlock)) {
    int64_t byte = i * numLines;
    Value bytes = b.shiftRight(words[byte / kWordBytes], byte % kWordBytes * 8);
    Value position = b.add(b.mul(block, kMXBlock), i);
    b.store(b.truncate(b.getIntegerType(8 * numLines), bytes),
            getAddress(position, line), numLines);
  }
  b.createBarrier();
  b.createFor(
      b.getThread(), b.i64(kSegmentTile * kChunksPerLine), b.getNumThreads(),
      [&](Value index) {
        Value inTile = b.divU(index, kChunksPerLine);
        Value lineInTile = b.mul(b.remU(index, kChunksPerLine), kVectorBytes);
        Value position = b.add(tile.elements.first, inTile);
        b.createIf(tile.elements.contains(b, position), [&] {
          Value chunk = b.load(b.getWordsType(), getAddress(inTile, lineInTile),
                               kVectorBytes);
          storeChunk(b, tile.output, b.add(tile.lines.first, lineInTile),
                     position, chunk, tile.lines.range);
        });
      });
}

void OuterBuilder::build() {
  int64_t threadsPerBlock = kSegmentTile / numLines;
  line = b.mul(b.remU(b.getThread(), threadsPerBlock), numLines);
  block = b.divU(b.getThread(), threadsPerBlock);
  kernel.forEachTile([&](const MXTile &tile) { quantizeTile(tile); });
}

void fp8moe::buildMXOuter(MXKernel &kernel) { OuterBuilder(kernel).build(); }

int64_t fp8moe::countMXThreads(const MXQuantizeProblem &problem) {
  if (readsAlongLines(problem))
    return TransposeTile::kThreads;
  int64_t numLines = kLoadBytes * 8 / problem.inputType.getIntOrFloatBitWidth();
  return kSegmentTile / numLines * kBlocks;
}
