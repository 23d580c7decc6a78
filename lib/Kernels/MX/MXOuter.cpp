//===- MXOuter.cpp - Blocks across the contiguous dimension ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread has the block of each of a few neighbouring lines in registers. Data
// go through shared memory, so that threads store 16 bytes.
//
// Groups along lines begin at any element, and so do their tiles, so chunks of
// a line that are aligned in memory are cut by the border of two tiles. The
// thread that stores the front of such a chunk also quantizes the block behind
// its tile, which reads a quarter more from the L2 cache: storing parts of
// chunks costs more.
//
// The threads of 32 lines are neighbours in a subgroup. In square blocks, and
// for blocks along the other axis, they exchange magnitudes there.
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXOuter.h"
#include "Kernels/Emit/TransposeTile.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The bytes that a thread loads of a position; it has 32 positions in
/// registers.
static constexpr int64_t kLoadBytes = 4;
static_assert(kPositions == kVectorBytes / kLoadBytes,
              "a chunk makes a word of each line");
/// Chunks that are loaded before the first is used where a loop does so.
static constexpr int64_t kChunksInFlight = 2;
/// Threads that should be resident on a multiprocessor, as what they load comes
/// while others compute and store. Kernels that would spill get a lower target.
/// Threads that work together have more in registers, and threads with a block
/// behind the tile wait longer.
static constexpr int64_t kResidentThreads = 960;
static constexpr int64_t kResidentThreadsWithMore = 1280;
static constexpr int64_t kResidentThreadsTogether = 768;
static constexpr int64_t kResidentThreadsTogetherWithMore = 960;

/// Whether lines are stored in chunks that are not those of a tile.
static bool isShifted(const MXQuantizeProblem &problem) {
  return problem.jagged && !problem.linesAreRows && writesAlongLines(problem);
}

/// Blocks of a line that a thread block quantizes.
static int64_t countBlocks(const MXQuantizeProblem &problem) {
  return kBlocks + isShifted(problem);
}

namespace {

class OuterBuilder {
public:
  OuterBuilder(MXKernel &kernel, MXKernel *acrossKernel)
      : kernel(kernel), b(kernel.b),
        numLines(kLoadBytes / kernel.math.getInputBytes()),
        hasMore(isShifted(kernel.problem)),
        output(kernel, numLines, kernel.toLines, hasMore, "tile"),
        scaleTile(b.allocateShared(kScaleTileBytes, "scales")) {
    if (acrossKernel)
      across.emplace(*acrossKernel, numLines);
  }

  void build();

private:
  SmallVector<Value> loadBlock(const MXTile &tile);
  SmallVector<Value> maskBlock(const MXTile &tile, ArrayRef<Value> words);
  Value loadElements(const MXTile &tile, Value chunk);
  SmallVector<Value> packBlock(ArrayRef<Value> words);
  Value getLargest(ArrayRef<Value> chunks) {
    return kernel.math.createAbsMax(b.zeroWords(), chunks);
  }
  SmallVector<Value> getMagnitudes(Value largest);
  SmallVector<Value> putScales(const MXTile &tile, ArrayRef<Value> magnitudes);
  SmallVector<Value> getFactors(ArrayRef<Value> multipliers);
  void quantizeTile(const MXTile &tile);
  void quantizeApart(const MXTile &tile);
  void quantizeTogether(const MXTile &tile);
  void quantizeTogether(const MXTile &tile, ArrayRef<Value> chunks);
  void putAcross(function_ref<void()> body);
  void quantizeWhole(const MXTile &tile, ArrayRef<Value> words);
  void quantizeElements(const MXTile &tile);
  void putNoScales(const MXTile &tile);

  Value getFirstLine(const MXTile &tile) {
    return b.add(tile.lines.first, line);
  }
  Value getFirstElement(const MXTile &tile) {
    return b.add(tile.elements.first, b.mul(block, kMXBlock));
  }
  /// Whether the thread's block has elements: those of the last tile of a group
  /// may not. Lanes of a subgroup agree.
  Value hasElements(const MXTile &tile) {
    if (!kernel.problem.jagged || kernel.problem.linesAreRows)
      return b.i1(true);
    return b.less(getFirstElement(tile), tile.elements.range.high);
  }
  /// Whether the thread's block is not the one behind the tile, which is
  /// another one's.
  Value isInTile() { return hasMore ? b.less(block, kBlocks) : b.i1(true); }
  /// Whether the thread's lines may be loaded at once, in 32 positions.
  /// Positions behind the range may be of another group, but not behind the
  /// tensor.
  Value isWhole(const MXTile &tile) {
    Value lineEnd = b.add(getFirstLine(tile), numLines);
    Value end = b.add(getFirstElement(tile), kMXBlock);
    Value elements =
        kernel.problem.linesAreRows ? kernel.sizes.columns : kernel.sizes.rows;
    return b.bitAnd(b.bitAnd(tile.input.vectorizable,
                             b.lessEqual(lineEnd, tile.lines.range.high)),
                    b.lessEqual(end, elements));
  }

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  /// Whether there is a block behind the tile.
  bool hasMore;
  OuterOutput output;
  Value scaleTile;
  std::optional<MXAcross> across;
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

/// The words of a block with zeros for positions behind the range, where there
/// are any.
SmallVector<Value> OuterBuilder::maskBlock(const MXTile &tile,
                                           ArrayRef<Value> words) {
  Value length = b.sub(tile.elements.range.high, getFirstElement(tile));
  return b.createIf(
      b.lessEqual(b.i64(kMXBlock), length),
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
  KernelBuilder::Step step(b, "load_elements");
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

SmallVector<Value> OuterBuilder::packBlock(ArrayRef<Value> words) {
  KernelBuilder::Step step(b, "pack_block");
  SmallVector<Value> chunks;
  for (int64_t i : llvm::seq(kChunks))
    chunks.push_back(b.packWords(words.slice(i * kPositions, kPositions)));
  return chunks;
}

/// The largest of each line, of which a chunk has several positions.
SmallVector<Value> OuterBuilder::getMagnitudes(Value largest) {
  SmallVector<Value> parts = kernel.math.unpackMagnitudes(largest);
  SmallVector<Value> magnitudes(ArrayRef(parts).take_front(numLines));
  for (size_t i = numLines; i < parts.size(); ++i)
    magnitudes[i % numLines] = b.maxU(magnitudes[i % numLines], parts[i]);
  return magnitudes;
}

/// The zeros that tiles of scales have for what is no block.
void OuterBuilder::putNoScales(const MXTile &tile) {
  if (!kernel.problem.tiledScales)
    return;
  b.createIf(isInTile(), [&] {
    for (int64_t i : llvm::seq(numLines))
      kernel.putScale(tile, scaleTile, b.add(line, i), block, b.i32(0));
  });
}

/// Returns what the elements of each line are multiplied by.
SmallVector<Value> OuterBuilder::putScales(const MXTile &tile,
                                           ArrayRef<Value> magnitudes) {
  MXKernel::Scales scales = kernel.createScales(magnitudes);
  b.createIf(isInTile(), [&] {
    for (auto [i, byte] : llvm::enumerate(scales.bytes))
      kernel.putScale(tile, scaleTile, b.add(line, i), block, byte);
  });
  return scales.multipliers;
}

/// A factor for each element of a chunk, or each word.
SmallVector<Value> OuterBuilder::getFactors(ArrayRef<Value> multipliers) {
  if (kernel.packsFactors)
    return SmallVector<Value>(
        kWordsPerChunk,
        kernel.math.packFactors(multipliers.front(), multipliers.back()));
  SmallVector<Value> factors;
  for (int64_t i : llvm::seq(kPositions * numLines))
    factors.push_back(multipliers[i % numLines]);
  return factors;
}

void OuterBuilder::quantizeWhole(const MXTile &tile, ArrayRef<Value> words) {
  SmallVector<Value> chunks = packBlock(maskBlock(tile, words));
  SmallVector<Value> factors =
      getFactors(putScales(tile, getMagnitudes(getLargest(chunks))));
  output.putBlock(line, block, chunks, [&](Value) { return factors; });
}

/// Quantizes a block that cannot be loaded at once: in loops, which need few
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
  SmallVector<Value> factors =
      getFactors(putScales(tile, getMagnitudes(largest)));
  forEachChunk({}, [&](Value number, Value chunk, Value) {
    output.putChunk(line, block, number, chunk, factors);
    return Value();
  });
}

/// Each thread for itself.
void OuterBuilder::quantizeApart(const MXTile &tile) {
  Value any = hasElements(tile), whole = isWhole(tile);
  SmallVector<Value> words = b.createIf(
      b.bitAnd(any, whole), [&] { return loadBlock(tile); },
      [&] { return SmallVector<Value>(kMXBlock, b.i32(0)); });
  // Other threads may still read the previous tile from shared memory.
  b.createBarrier();
  b.createIf(
      any,
      [&] {
        b.createIf(
            whole, [&] { quantizeWhole(tile, words); },
            [&] { quantizeElements(tile); });
      },
      [&] { putNoScales(tile); });
}

/// Quantizes where threads exchange magnitudes, which all of a subgroup do at
/// once. Lines and positions behind the last repeat it, or are zero.
void OuterBuilder::quantizeTogether(const MXTile &tile) {
  Value any = hasElements(tile);
  SmallVector<Value> words = b.createIf(
      b.bitAnd(any, isWhole(tile)),
      [&] { return maskBlock(tile, loadBlock(tile)); },
      [&] {
        // One chunk after the other, as all of them at once would take
        // registers from the rest of the kernel.
        SmallVector<Value> loaded;
        Value length = b.sub(tile.elements.range.high, getFirstElement(tile));
        for (int64_t i : llvm::seq(kChunks)) {
          Value chunk = b.createIf(
              b.less(b.i64(i * kPositions), length),
              [&] { return loadElements(tile, b.i64(i)); },
              [&] { return b.zeroWords(); });
          llvm::append_range(loaded, b.unpackWords(chunk));
        }
        return loaded;
      });
  SmallVector<Value> chunks = packBlock(words);
  // Other threads may still read the previous tile from shared memory.
  b.createBarrier();
  b.createIf(
      any, [&] { quantizeTogether(tile, chunks); },
      [&] {
        putNoScales(tile);
        putAcross([&] { across->putNoScales(tile, line, block); });
      });
}

/// The results of the block behind a tile along the other axis belong to
/// another tile.
void OuterBuilder::putAcross(function_ref<void()> body) {
  if (across)
    b.createIf(isInTile(), body);
}

/// The lanes of a subgroup have one block, or all of them one behind the tile.
void OuterBuilder::quantizeTogether(const MXTile &tile,
                                    ArrayRef<Value> chunks) {
  SmallVector<Value> magnitudes = getMagnitudes(getLargest(chunks));
  if (kernel.problem.square)
    magnitudes.assign(numLines, maxOfBlockLines(b, magnitudes));
  // The exchange comes first, when a thread has nothing else in registers.
  putAcross([&] { across->putFactors(tile, line, block, chunks, magnitudes); });
  SmallVector<Value> factors = getFactors(putScales(tile, magnitudes));
  output.putBlock(line, block, chunks, [&](Value) { return factors; });
  putAcross([&] { across->putBlock(line, block, chunks); });
}

void OuterBuilder::quantizeTile(const MXTile &tile) {
  if (across || kernel.problem.square)
    quantizeTogether(tile);
  else
    quantizeApart(tile);
  b.createBarrier();
  kernel.storeScales(tile, scaleTile);
  output.store(tile);
  if (across)
    across->store(tile);
}

void OuterBuilder::build() {
  int64_t threadsPerBlock = kSegmentTile / numLines;
  line = b.mul(b.remU(b.getThread(), threadsPerBlock), numLines);
  block = b.divU(b.getThread(), threadsPerBlock);
  kernel.forEachTile(across ? &across->kernel : nullptr,
                     [&](const MXTile &tile) { quantizeTile(tile); });
}

/// Whether rows are known to begin at addresses that vectors can have, so that
/// other loads are rare, and the addresses of theirs known but for one.
static bool isAligned(const MXKernel &kernel) {
  const SegmentSizes<int64_t> &sizes = kernel.problem.sizes;
  int64_t pitch = kernel.problem.linesAreRows ? sizes.inColumn : sizes.inRow;
  return !ShapedType::isDynamic(pitch) &&
         pitch * kernel.math.getInputBytes() % kVectorBytes == 0;
}

static int64_t countResidentThreads(const MXQuantizeProblem &problem,
                                    bool isTogether) {
  if (isShifted(problem))
    return isTogether ? kResidentThreadsTogetherWithMore
                      : kResidentThreadsWithMore;
  return isTogether ? kResidentThreadsTogether : kResidentThreads;
}

void fp8moe::buildMXOuter(MXKernel &kernel, MXKernel *across) {
  KernelBuilder &b = kernel.b;
  bool isTogether = across || kernel.problem.square;
  int64_t blocks =
      countResidentThreads(kernel.problem, isTogether) / b.getNumThreads();
  // With a block behind the tile AMD's kernels would spill for so many.
  bool isGranted =
      b.getTarget().takesBackRequests() || !isShifted(kernel.problem);
  if (blocks > 1 && isAligned(kernel) && isGranted)
    b.requestResidentBlocks(blocks);
  OuterBuilder(kernel, across).build();
}

int64_t fp8moe::countMXThreads(const MXQuantizeProblem &problem) {
  if (readsAlongLines(problem))
    return TransposeTile::kThreads;
  int64_t numLines = kLoadBytes * 8 / problem.inputType.getIntOrFloatBitWidth();
  return kSegmentTile / numLines * countBlocks(problem);
}
