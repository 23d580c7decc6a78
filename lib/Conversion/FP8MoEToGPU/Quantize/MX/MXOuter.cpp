//===- MXOuter.cpp - Blocks across the contiguous dimension ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread has the block of each of a few neighbouring lines in registers. Data
// go through workgroup memory, so that threads store 16 bytes.
//
// Groups along lines begin at any element, and so do their tiles, so chunks of
// a line that are aligned in memory are cut by the border of two tiles. Who
// stores the front of such a chunk also quantizes the block behind its tile,
// which reads a quarter more from the L2 cache: storing parts of chunks would
// take a store for each byte.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/Quantize/MX/MXKernel.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// What a thread loads of a position; 32 of them are in registers.
static constexpr int64_t kLoadBytes = 4;
/// Positions whose words fill a chunk, and chunks of a block.
static constexpr int64_t kPositions = kVectorBytes / kLoadBytes;
static constexpr int64_t kChunks = kMXBlock / kPositions;
/// Chunks that are loaded before the first is used where a loop does so.
static constexpr int64_t kChunksInFlight = 2;
static constexpr int64_t kBlocks = kSegmentTile / kMXBlock;
/// Chunks of bytes.
static constexpr int64_t kChunksPerLine = kSegmentTile / kVectorBytes;
static constexpr int64_t kChunksPerBlock = kMXBlock / kVectorBytes;
static constexpr int64_t kWordsPerChunk = kVectorBytes / kWordBytes;
/// Threads that should be resident on a multiprocessor, as what they load comes
/// while others compute and store. No kernel of known sizes spills for them;
/// for 960 some do.
static constexpr int64_t kResidentThreads = 960;
static_assert(kPositions == kWordBytes, "a chunk makes a word of each line");

/// Whether lines are stored in chunks that are not those of a tile.
static bool isShifted(const MXQuantizeProblem &problem) {
  return problem.groups == MXGroups::Elements && writesAlongLines(problem);
}

/// Blocks of a line that a thread block quantizes.
static int64_t countBlocks(const MXQuantizeProblem &problem) {
  return kBlocks + isShifted(problem);
}

namespace {

/// The bytes of a tile, line by line. Chunks of 16 bytes are permuted in a
/// line, so that eight threads that write the same chunk of their lines, or
/// read a line, meet in no bank. What is behind the tile lies apart.
class LineTile {
public:
  LineTile(KernelBuilder &b, int64_t linesPerThread, bool hasMore)
      : b(b), linesPerThread(linesPerThread), hasMore(hasMore),
        memory(b.allocateWorkgroup(
            kSegmentTile * (kSegmentTile + (hasMore ? kMXBlock : 0)), "tile")) {
  }

  Value load(Value line, Value chunk) {
    return b.load(b.getWordsType(), getAddress(line, chunk), kVectorBytes);
  }
  void store(Value words, Value line, Value chunk) {
    b.store(words, getAddress(line, chunk), kVectorBytes);
  }
  /// Stores a word of a line, of which `word` counts all.
  void storeWord(Value bytes, Value line, Value word) {
    Value chunk = getAddress(line, b.divU(word, kWordsPerChunk));
    Value inChunk = b.mul(b.remU(word, kWordsPerChunk), kWordBytes);
    b.store(bytes, b.offsetBytes(chunk, inChunk), kWordBytes);
  }

private:
  Value getAddress(Value line, Value chunk) {
    Value permuted =
        b.bitXor(chunk, b.remU(b.divU(line, linesPerThread), kChunksPerLine));
    Value offset =
        b.add(b.mul(line, kSegmentTile), b.mul(permuted, kVectorBytes));
    if (hasMore) {
      Value behind = b.add(b.mul(line, kMXBlock),
                           b.mul(b.sub(chunk, kChunksPerLine), kVectorBytes));
      offset = b.select(b.less(chunk, kChunksPerLine), offset,
                        b.add(behind, kSegmentTile * kSegmentTile));
    }
    return b.offsetBytes(memory, offset);
  }

  KernelBuilder &b;
  int64_t linesPerThread;
  bool hasMore;
  Value memory;
};

/// The bytes of a tile as they lie across lines: element by element.
class ElementTile {
public:
  explicit ElementTile(KernelBuilder &b)
      : b(b), memory(b.allocateWorkgroup(kSegmentTile * kSegmentTile, "tile")) {
  }

  Value load(Value element, Value line) {
    return b.load(b.getWordsType(), getAddress(element, line), kVectorBytes);
  }
  /// Stores the bytes of as many lines as `bytes` has.
  void store(Value bytes, Value element, Value line) {
    b.store(bytes, getAddress(element, line),
            bytes.getType().getIntOrFloatBitWidth() / 8);
  }

private:
  Value getAddress(Value element, Value line) {
    return b.offsetBytes(memory, b.add(b.mul(element, kSegmentTile), line));
  }

  KernelBuilder &b;
  Value memory;
};

class OuterBuilder {
public:
  explicit OuterBuilder(MXKernel &kernel)
      : kernel(kernel), b(kernel.b),
        numLines(kLoadBytes / kernel.math.getInputBytes()),
        hasMore(isShifted(kernel.problem)) {
    if (kernel.toLines)
      alongLines.emplace(b, numLines, hasMore);
    else
      acrossLines.emplace(b);
    if (kernel.problem.tiledScales)
      scaleTile = b.allocateWorkgroup(kScaleTileBytes, "scales");
  }

  void build();

private:
  SmallVector<Value> loadBlock(const MXTile &tile);
  SmallVector<Value> maskBlock(const MXTile &tile, ArrayRef<Value> words);
  Value loadElements(const MXTile &tile, Value chunk);
  SmallVector<Value> getMagnitudes(Value largest);
  SmallVector<Value> storeScales(const MXTile &tile, Value largest);
  SmallVector<Value> convert(Value chunk, ArrayRef<Value> multipliers);
  void quantizeTile(const MXTile &tile);
  void quantizeWhole(const MXTile &tile, ArrayRef<Value> words);
  void quantizeElements(const MXTile &tile);
  void putChunk(Value chunk, ArrayRef<Value> words);
  void storeLines(const MXTile &tile);
  void storeShiftedLines(const MXTile &tile);
  void storeElements(const MXTile &tile);

  Value getFirstLine(const MXTile &tile) {
    return b.add(tile.lines.first, line);
  }
  Value getFirstElement(const MXTile &tile) {
    return b.add(tile.elements.first, b.mul(block, kMXBlock));
  }
  /// Whether the thread's lines may be loaded at once, in 32 positions. Those
  /// behind the range may be of another group, but not behind the tensor.
  Value isWhole(const MXTile &tile) {
    Value lineEnd = b.add(getFirstLine(tile), numLines);
    Value end = b.add(getFirstElement(tile), kMXBlock);
    return b.bitAnd(b.bitAnd(tile.input.vectorizable,
                             b.lessEqual(lineEnd, tile.lines.range.high)),
                    b.lessEqual(end, kernel.sizes.elements));
  }
  /// Whether the thread has anything to do.
  Value isInside(const MXTile &tile) {
    return b.bitAnd(b.less(getFirstLine(tile), tile.lines.range.high),
                    b.less(getFirstElement(tile), tile.elements.range.high));
  }

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  /// Whether there is a block behind the tile.
  bool hasMore;
  std::optional<LineTile> alongLines;
  std::optional<ElementTile> acrossLines;
  Value scaleTile;
  /// The thread's first line and its block in a tile.
  Value line, block;
};

} // namespace

/// The thread's lines in all positions of its block.
SmallVector<Value> OuterBuilder::loadBlock(const MXTile &tile) {
  const Plane &plane = tile.input;
  Value pointer =
      createElementPointer(b, plane, getFirstLine(tile), getFirstElement(tile));
  Value pitch = b.mul(plane.otherStride, plane.elementBytes);
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(kMXBlock))
    words.push_back(b.load(b.getI32Type(),
                           b.offsetBytes(pointer, b.mul(pitch, i)), kLoadBytes,
                           /*readOnly=*/true));
  return words;
}

/// The same with zeros for positions behind the range, where there are any.
SmallVector<Value> OuterBuilder::maskBlock(const MXTile &tile,
                                           ArrayRef<Value> words) {
  Value length = b.sub(tile.elements.range.high, getFirstElement(tile));
  SmallVector<Type> types(kMXBlock, b.getI32Type());
  return b.createIf(
      b.lessEqual(b.i64(kMXBlock), length), types,
      [&] { return SmallVector<Value>(words); },
      [&] {
        SmallVector<Value> masked;
        for (auto [i, word] : llvm::enumerate(words))
          masked.push_back(b.select(b.less(b.i64(i), length), word, 0));
        return masked;
      });
}

/// One chunk of them, element by element. Lines and positions behind the last
/// one repeat it.
Value OuterBuilder::loadElements(const MXTile &tile, Value chunk) {
  const Plane &plane = tile.input;
  auto elementType = b.getIntegerType(plane.elementBytes * 8);
  Value first = b.add(getFirstElement(tile), b.mul(chunk, kPositions));
  SmallVector<Value> elements;
  for (int64_t i : llvm::seq(kPositions)) {
    Value position =
        b.minS(b.add(first, i), b.sub(tile.elements.range.high, 1));
    for (int64_t j : llvm::seq(numLines)) {
      Value index =
          b.minS(b.add(getFirstLine(tile), j), b.sub(tile.lines.range.high, 1));
      elements.push_back(b.load(elementType,
                                createElementPointer(b, plane, index, position),
                                plane.elementBytes, /*readOnly=*/true));
    }
  }
  return b.packWords(b.joinElements(elements));
}

/// The largest of each line, of which a chunk has several positions.
SmallVector<Value> OuterBuilder::getMagnitudes(Value largest) {
  SmallVector<Value> parts = kernel.math.unpackMagnitudes(largest);
  SmallVector<Value> magnitudes(ArrayRef(parts).take_front(numLines));
  for (size_t i = numLines; i < parts.size(); ++i)
    magnitudes[i % numLines] = b.maxU(magnitudes[i % numLines], parts[i]);
  return magnitudes;
}

/// Returns what the elements of each line are multiplied by.
SmallVector<Value> OuterBuilder::storeScales(const MXTile &tile,
                                             Value largest) {
  MXKernel::Scales scales = kernel.createScales(getMagnitudes(largest));
  auto store = [&] {
    for (auto [i, byte] : llvm::enumerate(scales.bytes))
      if (scaleTile)
        kernel.putScale(tile, scaleTile, b.add(line, i), block, byte);
      else
        kernel.storeScale(tile, b.add(line, i), block, byte);
  };
  // The block behind a tile is another one's.
  if (hasMore)
    b.createIf(b.less(block, kBlocks), store);
  else
    store();
  return scales.multipliers;
}

/// The bytes of a chunk: a word for each line, or the words of the positions.
SmallVector<Value> OuterBuilder::convert(Value chunk,
                                         ArrayRef<Value> multipliers) {
  SmallVector<Value> values = kernel.math.unpackValues(chunk);
  if (!kernel.toLines) {
    SmallVector<Value> factors;
    for (size_t i = 0; i < values.size(); ++i)
      factors.push_back(multipliers[i % numLines]);
    return kernel.math.createQuantize(values, factors);
  }
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(numLines)) {
    SmallVector<Value> ofLine;
    for (size_t at = i; at < values.size(); at += numLines)
      ofLine.push_back(values[at]);
    SmallVector<Value> factors(kPositions, multipliers[i]);
    words.push_back(kernel.math.createQuantize(ofLine, factors).front());
  }
  return words;
}

/// Puts the bytes of chunk `chunk` of the thread's block into workgroup memory.
void OuterBuilder::putChunk(Value chunk, ArrayRef<Value> words) {
  if (kernel.toLines) {
    Value word = b.add(b.mul(block, kChunks), chunk);
    for (auto [i, bytes] : llvm::enumerate(words))
      alongLines->storeWord(bytes, b.add(line, i), word);
    return;
  }
  Value first = b.add(b.mul(block, kMXBlock), b.mul(chunk, kPositions));
  for (int64_t i : llvm::seq(kPositions)) {
    int64_t byte = i * numLines;
    Value bytes = b.shiftRight(words[byte / kWordBytes], byte % kWordBytes * 8);
    acrossLines->store(b.truncate(b.getIntegerType(8 * numLines), bytes),
                       b.add(first, i), line);
  }
}

void OuterBuilder::quantizeWhole(const MXTile &tile, ArrayRef<Value> words) {
  SmallVector<Value> masked = maskBlock(tile, words), chunks;
  Value largest = b.zeroWords();
  for (int64_t i : llvm::seq(kChunks)) {
    chunks.push_back(
        b.packWords(ArrayRef(masked).slice(i * kPositions, kPositions)));
    largest = kernel.math.createAbsMax(largest, chunks.back());
  }
  SmallVector<Value> multipliers = storeScales(tile, largest);
  if (!kernel.toLines) {
    for (auto [i, chunk] : llvm::enumerate(chunks))
      putChunk(b.i64(i), convert(chunk, multipliers));
    return;
  }
  // Chunks are taken in turn, so that each is unpacked and gone before the
  // next.
  Value firstChunk = b.mul(block, kChunksPerBlock);
  auto putBytes = [&](int64_t i) {
    SmallVector<SmallVector<Value>> ofLines(numLines);
    for (Value chunk :
         ArrayRef(chunks).slice(i * kWordsPerChunk, kWordsPerChunk))
      for (auto [ofLine, word] :
           llvm::zip_equal(ofLines, convert(chunk, multipliers)))
        ofLine.push_back(word);
    for (auto [j, ofLine] : llvm::enumerate(ofLines))
      alongLines->store(b.packWords(ofLine), b.add(line, j),
                        b.add(firstChunk, i));
  };
  putBytes(0);
  auto putRest = [&] {
    for (int64_t i = 1; i < kChunksPerBlock; ++i)
      putBytes(i);
  };
  // Of the block behind a tile one chunk is needed.
  if (hasMore)
    b.createIf(b.less(block, kBlocks), putRest);
  else
    putRest();
}

/// The same where the block cannot be loaded at once: in loops, which need few
/// registers, that read everything twice.
void OuterBuilder::quantizeElements(const MXTile &tile) {
  auto forEachChunk = [&](ValueRange init,
                          function_ref<Value(Value, Value, Value)> visit) {
    return b.createRareFor(
        b.i64(0), b.i64(kChunks), kChunksInFlight, init,
        [&](Value first, ValueRange carried) {
          SmallVector<Value> chunks;
          for (int64_t i : llvm::seq(kChunksInFlight))
            chunks.push_back(loadElements(tile, b.add(first, i)));
          SmallVector<Value> result(carried);
          for (auto [i, chunk] : llvm::enumerate(chunks)) {
            Value number = b.add(first, i);
            Value previous = result.empty() ? Value() : result.front();
            if (Value next = visit(number, chunk, previous))
              result.front() = next;
          }
          return result;
        });
  };
  Value largest =
      forEachChunk({b.zeroWords()}, [&](Value, Value chunk, Value previous) {
        return kernel.math.createAbsMax(previous, chunk);
      }).front();
  SmallVector<Value> multipliers = storeScales(tile, largest);
  forEachChunk({}, [&](Value number, Value chunk, Value) {
    putChunk(number, convert(chunk, multipliers));
    return Value();
  });
}

void OuterBuilder::quantizeTile(const MXTile &tile) {
  Value whole = isWhole(tile);
  SmallVector<Type> types(kMXBlock, b.getI32Type());
  SmallVector<Value> words = b.createIf(
      whole, types, [&] { return loadBlock(tile); },
      [&] { return SmallVector<Value>(kMXBlock, b.i32(0)); });
  // Threads may still read the block's previous tile.
  b.createBarrier();
  b.createIf(
      whole, [&] { quantizeWhole(tile, words); },
      [&] { quantizeElements(tile); });
  b.createBarrier();
  if (scaleTile)
    kernel.storeScaleTile(tile, scaleTile);
  if (!kernel.toLines)
    storeElements(tile);
  else if (hasMore)
    storeShiftedLines(tile);
  else
    storeLines(tile);
}

void OuterBuilder::storeLines(const MXTile &tile) {
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

/// Stores the chunks that begin in the tile, counted from the aligned address
/// at or before its first element on.
void OuterBuilder::storeShiftedLines(const MXTile &tile) {
  Value first = tile.elements.first;
  Value shift = b.bitAnd(first, kVectorBytes - 1);
  Value shift32 = b.truncate(b.getI32Type(), shift);
  Value isAligned = b.equal(shift, 0);
  auto store = [&](Value inTile, Value chunk, Value before, Value words) {
    Value shifted = b.packWords(createShiftedWords(
        b, b.unpackWords(before), b.unpackWords(words), shift32));
    storeChunk(b, tile.alignedOutput,
               b.add(b.sub(first, shift), b.mul(chunk, kVectorBytes)),
               b.add(tile.lines.first, inTile), shifted, tile.elements.range);
  };
  auto isLine = [&](Value inTile) {
    return tile.lines.contains(b, b.add(tile.lines.first, inTile));
  };
  b.createFor(b.getThread(), b.i64(kSegmentTile * kChunksPerLine),
              b.getNumThreads(), [&](Value index) {
                Value inTile = b.divU(index, kChunksPerLine);
                Value lane = b.remU(index, kChunksPerLine);
                b.createIf(isLine(inTile), [&] {
                  Value chunk = b.select(isAligned, lane, b.add(lane, 1));
                  Value before =
                      alongLines->load(inTile, b.maxS(b.sub(chunk, 1), 0));
                  store(inTile, chunk, before, alongLines->load(inTile, chunk));
                });
              });
  // No tile comes before the first of a group to store the rest of its chunk.
  Value isFirst = b.equal(first, tile.elements.range.low);
  b.createIf(b.select(isAligned, b.i1(false), isFirst), [&] {
    b.createFor(b.getThread(), b.i64(kSegmentTile), b.getNumThreads(),
                [&](Value inTile) {
                  b.createIf(isLine(inTile), [&] {
                    store(inTile, b.i64(0), b.zeroWords(),
                          alongLines->load(inTile, b.i64(0)));
                  });
                });
  });
}

void OuterBuilder::storeElements(const MXTile &tile) {
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

void OuterBuilder::build() {
  int64_t threadsPerBlock = kSegmentTile / numLines;
  line = b.mul(b.remU(b.getThread(), threadsPerBlock), numLines);
  block = b.divU(b.getThread(), threadsPerBlock);
  kernel.forEachTile([&](const MXTile &tile) { quantizeTile(tile); });
}

/// Whether rows are known to begin at addresses that vectors can have, so that
/// other loads are rare, and the addresses of theirs known but for one.
static bool isAligned(const MXKernel &kernel) {
  int64_t pitch = kernel.problem.sizes.inElement;
  return !ShapedType::isDynamic(pitch) &&
         pitch * kernel.math.getInputBytes() % kVectorBytes == 0;
}

void fp8moe::buildMXOuter(MXKernel &kernel) {
  KernelBuilder &b = kernel.b;
  int64_t blocks = kResidentThreads / b.getNumThreads();
  if (blocks > 1 && isAligned(kernel))
    b.getHooks().requestResidentBlocks(b.getKernel(), blocks);
  OuterBuilder(kernel).build();
}

int64_t fp8moe::countMXThreads(const MXQuantizeProblem &problem) {
  if (readsAlongLines(problem))
    return TransposeTile::kThreads;
  int64_t numLines = kLoadBytes * 8 / problem.inputType.getIntOrFloatBitWidth();
  return kSegmentTile / numLines * countBlocks(problem);
}
