//===- Cast.cpp - To and from FP8 by given scales -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/Cast.h"

#include "Kernels/Emit/ShiftedLines.h"
#include "Kernels/Emit/TransposeTile.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Neighbouring positions across the contiguous dimension, of which a thread
/// takes a chunk each: a word of a transposed tile.
static constexpr int64_t kPack = kWordBytes;

static_assert(kSegmentTile == TransposeTile::kRowBytes);

int64_t fp8moe::getRowAlignment(const ScaledCastProblem &problem) {
  bool hasRowChunks = problem.readsRows() || problem.writesRows();
  return hasRowChunks && !problem.hasBlocks() ? kVectorBytes : 1;
}

static bool isTransposing(const ScaledCastProblem &problem) {
  return problem.readsRows() != problem.writesRows();
}

/// Elements that are converted to FP8 before they are transposed come in more
/// bytes than FP8 has: twice the threads hold half of the elements each.
int64_t fp8moe::countCastThreads(const ScaledCastProblem &problem) {
  bool isWide = problem.isToFP8() && isTransposing(problem);
  return (isWide ? 2 : 1) * TransposeTile::kThreads;
}

/// Threads that should be resident on a multiprocessor, as what they load comes
/// while others convert and store: as many as most kernels have registers for.
static int64_t countResidentThreads(const ScaledCastProblem &problem) {
  return problem.isToFP8() && !isTransposing(problem) ? 768 : 1024;
}

namespace {

class CastBuilder {
public:
  CastBuilder(KernelBuilder &b, const ScaledCastProblem &problem);

  void build();

private:
  void convertTile(const SegmentTile &tile);
  void zeroTile(const SegmentTile &tile);

  /// The factors of the chunks at `others`; one list where all share it.
  SmallVector<SmallVector<Value>> loadFactors(const SegmentTile &tile,
                                              bool alongRows, Value first,
                                              ValueRange others, int64_t count);
  /// The FP8 bytes of the chunks of each of the thread's positions.
  SmallVector<Value> convertToFP8(const SegmentTile &tile, Value first,
                                  ValueRange others, ArrayRef<Value> chunks);
  /// The words that words of FP8 become, times one factor or a factor for each.
  SmallVector<Value> convertFromFP8(ArrayRef<Value> words,
                                    ArrayRef<Value> factors);
  /// Stores 16 bytes: FP8 that is converted first where the output is not.
  void storePart(const SegmentTile &tile, Value first, Value other,
                 ArrayRef<Value> words, ArrayRef<Value> factors);
  /// Stores chunks at `others` of FP8 bytes along the dimension that is
  /// contiguous in the input and in the output.
  void storeAlong(const SegmentTile &tile, ValueRange others,
                  ArrayRef<Value> chunks);
  /// Stores them where different ones are.
  void storeAcross(const SegmentTile &tile, ArrayRef<Value> chunks);

  /// The thread's chunk along the input's contiguous dimension of a tile, and
  /// its first position across it.
  Value getChunkInTile() {
    return transposed
               ? transposed->getWriteRow()
               : b.mul(b.remU(b.getThread(), kSegmentTile / chunk), chunk);
  }
  Value getOtherInTile() {
    Value word = transposed ? transposed->getWriteWord()
                            : b.divU(b.getThread(), kSegmentTile / chunk);
    return b.mul(word, kPack);
  }
  Plane getInputPlane(const SegmentTile &tile) {
    Plane plane = tiles.getTilePlane(tile,
                                     {inputPointer, getInputBytes(),
                                      problem.inputAlignment, sizes.inSegment,
                                      sizes.inRow, sizes.inColumn},
                                     fromRows);
    plane.savesRegisters = true;
    return plane;
  }
  Plane getOutputPlane(const SegmentTile &tile) {
    return tiles.getTilePlane(tile,
                              {outputPointer, getOutputBytes(),
                               problem.outputAlignment, sizes.outSegment,
                               sizes.outRow, sizes.outColumn},
                              toRows);
  }
  int64_t getInputBytes() const {
    return problem.inputType.getIntOrFloatBitWidth() / 8;
  }
  int64_t getOutputBytes() const {
    return problem.outputType.getIntOrFloatBitWidth() / 8;
  }
  /// FP8 bytes of which 16 bytes of output are made.
  int64_t getPart() const { return kVectorBytes / getOutputBytes(); }
  SegmentTiles createTiles();

  KernelBuilder &b;
  const ScaledCastProblem &problem;
  Value inputPointer, scalesPointer, offsetsPointer, outputPointer;
  SegmentSizes<Value> sizes;
  /// Whether chunks are taken along rows of the input and of the output.
  bool fromRows, toRows;
  /// The elements of a chunk that a thread loads.
  int64_t chunk;
  SegmentTiles tiles;
  CastFactors factors;
  std::optional<TransposeTile> transposed;
};

} // namespace

CastBuilder::CastBuilder(KernelBuilder &b, const ScaledCastProblem &problem)
    : b(b), problem(problem), fromRows(problem.readsRows()),
      toRows(problem.writesRows()),
      chunk(kSegmentTile * kSegmentTile / kPack / b.getNumThreads()),
      tiles(createTiles()), factors(b, problem, sizes, scalesPointer, tiles) {
  if (isTransposing(problem))
    transposed.emplace(b, /*rowsPerThread=*/chunk, /*buffers=*/1);
}

/// Also sets the members that are parameters.
SegmentTiles CastBuilder::createTiles() {
  unsigned pointer = 0, parameter = 0;
  inputPointer = b.getPointer(pointer++, "input");
  scalesPointer = b.getPointer(pointer++, "scales");
  if (problem.jagged)
    offsetsPointer = b.getPointer(pointer++, "group_ends");
  outputPointer = b.getPointer(pointer++, "output");
  sizes = bindSizes(b, problem.sizes, parameter);
  return SegmentTiles(b, sizes, offsetsPointer, getRowAlignment(problem));
}

SmallVector<SmallVector<Value>>
CastBuilder::loadFactors(const SegmentTile &tile, bool alongRows, Value first,
                         ValueRange others, int64_t count) {
  SmallVector<SmallVector<Value>> result;
  for (Value other : others)
    if (result.empty() || !factors.areShared(alongRows))
      result.push_back(factors.load(tile, alongRows, first, other, count));
  return result;
}

/// One factor, or one for each.
static Value getFactor(ArrayRef<Value> factors, size_t index) {
  return factors[factors.size() == 1 ? 0 : index];
}

SmallVector<Value> CastBuilder::convertToFP8(const SegmentTile &tile,
                                             Value first, ValueRange others,
                                             ArrayRef<Value> chunks) {
  SmallVector<SmallVector<Value>> loaded =
      loadFactors(tile, fromRows, first, others, chunk);
  SmallVector<Value> result;
  const size_t perPosition = chunks.size() / kPack;
  for (int64_t i : llvm::seq(kPack)) {
    ArrayRef<Value> ofPosition = loaded[loaded.size() == 1 ? 0 : i];
    SmallVector<Value> products, packed;
    for (Value words : chunks.slice(i * perPosition, perPosition))
      for (Value value :
           b.unpackFloats(b.unpackWords(words), problem.inputType))
        // (Q4): an f32 product; the conversion clamps.
        products.push_back(arith::MulFOp::create(
            b, value, getFactor(ofPosition, products.size())));
    for (int64_t byte = 0; byte < chunk; byte += kWordBytes)
      llvm::append_range(
          packed,
          kernel::PackFP8Op::create(
              b, ArrayRef(products).slice(byte, kWordBytes), problem.outputType)
              .getWords());
    result.push_back(b.packWords(packed));
  }
  return result;
}

SmallVector<Value> CastBuilder::convertFromFP8(ArrayRef<Value> words,
                                               ArrayRef<Value> ofPosition) {
  SmallVector<Value> products;
  for (Value word : words)
    for (Value value :
         kernel::UnpackFP8Op::create(b, word, problem.inputType)->getResults())
      products.push_back(arith::MulFOp::create(
          b, value, getFactor(ofPosition, products.size())));
  return b.packFloats(products, problem.outputType);
}

void CastBuilder::storePart(const SegmentTile &tile, Value first, Value other,
                            ArrayRef<Value> words, ArrayRef<Value> ofPosition) {
  SmallVector<Value> stored = problem.isToFP8()
                                  ? SmallVector<Value>(words)
                                  : convertFromFP8(words, ofPosition);
  storeChunk(b, getOutputPlane(tile), first, other, b.packWords(stored),
             tile.get(toRows).range);
}

/// Transposes words between `lanes` neighbouring lanes, 1, 2 or 4: part i of a
/// lane's words becomes part l of what lane i has, for lane number l.
static SmallVector<Value> transposeLanes(KernelBuilder &b,
                                         SmallVector<Value> words, Value lane,
                                         int64_t lanes) {
  const size_t wordsPerPart = words.size() / lanes;
  for (int64_t mask = 1; mask < lanes; mask *= 2) {
    Value isUpper = b.isNonZero(b.bitAnd(lane, mask));
    for (size_t i : llvm::seq(words.size())) {
      if (i / wordsPerPart & mask)
        continue;
      Value &low = words[i], &high = words[i + mask * wordsPerPart];
      Value given = b.shuffleXor(b.select(isUpper, low, high), mask);
      Value kept = b.select(isUpper, high, low);
      low = b.select(isUpper, given, kept);
      high = b.select(isUpper, kept, given);
    }
  }
  return words;
}

void CastBuilder::storeAlong(const SegmentTile &tile, ValueRange others,
                             ArrayRef<Value> chunks) {
  // As many neighbouring threads as a chunk has parts store the chunk of one of
  // them after the other: what all of them store at a time is contiguous.
  const int64_t parts = chunk / getPart();
  Value lane = b.remU(b.getThread(), parts);
  Value chunkOfFirst = b.sub(getChunkInTile(), b.mul(lane, chunk));
  Value base = b.add(b.add(tile.get(toRows).first, chunkOfFirst),
                     b.mul(lane, getPart()));
  SmallVector<SmallVector<Value>> words;
  for (Value bytes : chunks)
    words.push_back(transposeLanes(b, b.unpackWords(bytes), lane, parts));
  Value firstOther = b.add(tile.get(!toRows).first, getOtherInTile());
  const int64_t wordsPerPart = getPart() / kWordBytes;
  for (int64_t part : llvm::seq(parts)) {
    Value first = b.add(base, part * chunk);
    SmallVector<SmallVector<Value>> loaded(1);
    if (!problem.isToFP8())
      loaded = loadFactors(tile, toRows, first, others, getPart());
    for (int64_t i : llvm::seq(kPack)) {
      Value other = b.add(firstOther, i);
      b.createIf(tile.get(!toRows).contains(b, other), [&] {
        storePart(tile, first, other,
                  ArrayRef(words[i]).slice(part * wordsPerPart, wordsPerPart),
                  loaded[loaded.size() == 1 ? 0 : i]);
      });
    }
  }
}

void CastBuilder::storeAcross(const SegmentTile &tile, ArrayRef<Value> chunks) {
  const TileExtent &along = tile.get(toRows), &across = tile.get(!toRows);
  Value firstInTile =
      b.mul(b.remU(b.getThread(), kSegmentTile / getPart()), getPart());
  Value first = b.add(along.first, firstInTile);
  // Factors of columns are the same for all rows.
  bool areShared = !problem.isToFP8() && !problem.hasBlocks() && !toRows;
  SmallVector<Value> shared;
  if (areShared)
    shared = factors.load(tile, toRows, first, Value(), getPart());
  // Threads may still read the block's previous tile.
  b.createBarrier();
  if (problem.hasBlocks())
    factors.fillTable(tile);
  transposed->write(b.i64(0), packAcross(b, chunks, b.getI8Type()));
  auto storeChunks = [&] {
    transposed->forEachChunk(
        b.i64(0),
        [&](Value row, Value, Value bytes) {
          Value other = b.add(across.first, row);
          b.createIf(across.contains(b, other), [&] {
            SmallVector<Value> ofPosition(shared);
            if (problem.hasBlocks())
              ofPosition =
                  factors.loadFromTable(toRows, firstInTile, row, getPart());
            else if (!problem.isToFP8() && !areShared)
              ofPosition = factors.load(tile, toRows, first, other, getPart());
            storePart(tile, first, other, b.unpackWords(bytes), ofPosition);
          });
        },
        getPart());
  };
  // For f32, whose chunks take twice the registers, line stores would lower the
  // occupancy, and are seldom needed.
  if (!problem.isToFP8() || problem.inputType.isF32())
    return storeChunks();
  storeLines(b, getOutputPlane(tile), across, along, *transposed, b.i64(0),
             storeChunks);
}

void CastBuilder::convertTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(fromRows), &across = tile.get(!fromRows);
  // Loads behind the last position repeat it.
  SmallVector<Value> others;
  Value firstOther = b.add(across.first, getOtherInTile());
  for (int64_t i : llvm::seq(kPack))
    others.push_back(b.minS(b.add(firstOther, i), b.sub(across.range.high, 1)));
  Value first = b.add(along.first, getChunkInTile());
  // Elements of another segment may be loaded, as they are not stored.
  IndexRange loadable{b.i64(0), fromRows ? sizes.rows : sizes.columns};
  SmallVector<Value> chunks =
      loadChunks(b, getInputPlane(tile), first,
                 chunk * getInputBytes() / kVectorBytes, others, loadable);
  if (problem.isToFP8())
    chunks = convertToFP8(tile, first, others, chunks);
  if (fromRows == toRows)
    storeAlong(tile, others, chunks);
  else
    storeAcross(tile, chunks);
}

void CastBuilder::zeroTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(toRows), &across = tile.get(!toRows);
  Plane output = getOutputPlane(tile);
  const int64_t partsPerRow = kSegmentTile / getPart();
  b.createRareFor(
      b.getThread(), b.i64(kSegmentTile * partsPerRow), b.getNumThreads(),
      [&](Value index) {
        Value other = b.add(across.first, b.divU(index, partsPerRow));
        Value first =
            b.add(along.first, b.mul(b.remU(index, partsPerRow), getPart()));
        b.createIf(across.contains(b, other),
                   [&] { zeroChunk(b, output, first, other, along.range); });
      });
}

void CastBuilder::build() {
  // Blocks that run together write what lies together.
  tiles.forEach(toRows, [&](const SegmentTile &tile) {
    b.createIf(
        tile.isRemainder, [&] { zeroTile(tile); }, [&] { convertTile(tile); });
  });
}

void fp8moe::buildCast(KernelBuilder &b, const ScaledCastProblem &problem) {
  if (b.getTarget().takesBackRequests())
    b.requestResidentBlocks(countResidentThreads(problem) / b.getNumThreads());
  CastBuilder(b, problem).build();
}
