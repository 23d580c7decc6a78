//===- Cast.cpp - To and from FP8 by given scales -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToGPU/Cast/Cast.h"

#include "FP8MoEToGPU/Cast/CastFactors.h"
#include "FP8MoEToGPU/Common/TransposeTile.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Elements that a thread converts at a time: 16 bytes of FP8.
static constexpr int64_t kChunk = kVectorBytes;
/// Neighbouring positions across the contiguous dimension, of which a thread
/// takes a chunk each: a word of a transposed tile.
static constexpr int64_t kPack = kWordBytes;
static constexpr int64_t kChunksPerTile = kSegmentTile / kChunk;

static_assert(kCastThreads == TransposeTile::kThreads &&
              kSegmentTile == TransposeTile::kRowBytes);

/// The f32 value of each element of a chunk of bf16 or f32; exact.
static SmallVector<Value> unpackFloats(KernelBuilder &b, Value chunk,
                                       Type type) {
  SmallVector<Value> values;
  for (Value word : b.unpackWords(chunk)) {
    if (type.isF32()) {
      values.push_back(b.bitcast(b.getF32Type(), word));
      continue;
    }
    for (Value bits : {b.widenLowBF16(word), b.widenHighBF16(word)})
      values.push_back(b.bitcast(b.getF32Type(), bits));
  }
  return values;
}

namespace {

class CastBuilder {
public:
  CastBuilder(KernelBuilder &b, const ScaledCastProblem &problem);

  void build();

private:
  void convertTile(const SegmentTile &tile);
  void zeroTile(const SegmentTile &tile);

  /// Calls `body` for each of the thread's chunks along the output's contiguous
  /// dimension, with its position across, where that is inside of the tile.
  void forEachChunk(const SegmentTile &tile,
                    function_ref<void(int64_t index, Value other)> body);
  /// The factors of the chunks at `others`; one list where all share it.
  SmallVector<SmallVector<Value>> loadFactors(const SegmentTile &tile,
                                              bool alongRows, Value first,
                                              ValueRange others);
  /// The FP8 bytes of the chunks of each of the thread's positions.
  SmallVector<Value> convertToFP8(const SegmentTile &tile, Value first,
                                  ValueRange others, ArrayRef<Value> chunks);
  /// Stores a chunk of FP8 bytes times one factor, or a factor for each.
  void storeFromFP8(const SegmentTile &tile, Value first, Value other,
                    Value bytes, ArrayRef<Value> factors);

  /// The thread's chunk along a contiguous dimension of a tile, and its first
  /// position across it.
  Value getChunkInTile() {
    return b.mul(b.remU(b.getThread(), kChunksPerTile), kChunk);
  }
  Value getOtherInTile() {
    return b.mul(b.divU(b.getThread(), kChunksPerTile), kPack);
  }
  Plane getInputPlane(const SegmentTile &tile) {
    return tiles.getTilePlane(tile,
                              {inputPointer, getInputBytes(),
                               problem.inputAlignment, sizes.inSegment,
                               sizes.inRow, sizes.inColumn},
                              fromRows);
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
  SegmentTiles createTiles();

  KernelBuilder &b;
  const ScaledCastProblem &problem;
  Value inputPointer, scalesPointer, offsetsPointer, outputPointer;
  CastSizes<Value> sizes;
  /// Whether chunks are taken along rows of the input and of the output.
  bool fromRows, toRows;
  SegmentTiles tiles;
  CastFactors factors;
};

} // namespace

CastBuilder::CastBuilder(KernelBuilder &b, const ScaledCastProblem &problem)
    : b(b), problem(problem), fromRows(problem.sizes.inRow == 1),
      toRows(problem.sizes.outRow == 1), tiles(createTiles()),
      factors(b, problem, sizes, scalesPointer, tiles) {}

/// Also sets the members that are parameters.
SegmentTiles CastBuilder::createTiles() {
  unsigned pointer = 0, parameter = 0;
  inputPointer = b.getPointer(pointer++);
  scalesPointer = b.getPointer(pointer++);
  if (problem.jagged)
    offsetsPointer = b.getPointer(pointer++);
  outputPointer = b.getPointer(pointer++);
  for (auto [from, to] : llvm::zip_equal(CastSizes<int64_t>::members(),
                                         CastSizes<Value>::members())) {
    int64_t size = problem.sizes.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  return SegmentTiles(b, sizes.segments, sizes.rows, sizes.columns,
                      offsetsPointer);
}

void CastBuilder::forEachChunk(const SegmentTile &tile,
                               function_ref<void(int64_t, Value)> body) {
  const TileExtent &across = tile.get(!toRows);
  Value first = b.add(across.first, getOtherInTile());
  for (int64_t i : llvm::seq(kPack)) {
    Value other = b.add(first, i);
    b.createIf(across.contains(b, other), [&] { body(i, other); });
  }
}

SmallVector<SmallVector<Value>>
CastBuilder::loadFactors(const SegmentTile &tile, bool alongRows, Value first,
                         ValueRange others) {
  SmallVector<SmallVector<Value>> result;
  for (Value other : others)
    if (result.empty() || !factors.areShared(alongRows))
      result.push_back(factors.load(tile, alongRows, first, other, kChunk));
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
      loadFactors(tile, fromRows, first, others);
  SmallVector<Value> result;
  const int64_t chunksPerPosition = getInputBytes();
  for (int64_t i : llvm::seq(kPack)) {
    ArrayRef<Value> ofPosition = loaded[loaded.size() == 1 ? 0 : i];
    SmallVector<Value> products, words;
    for (Value chunk : chunks.slice(i * chunksPerPosition, chunksPerPosition))
      for (Value value : unpackFloats(b, chunk, problem.inputType))
        // (Q4): an f32 product; the conversion clamps.
        products.push_back(arith::MulFOp::create(
            b, value, getFactor(ofPosition, products.size())));
    for (int64_t byte = 0; byte < kChunk; byte += kWordBytes)
      words.push_back(b.getHooks().createPackFP8(
          b, ArrayRef(products).slice(byte, kWordBytes), problem.outputType));
    result.push_back(b.packWords(words));
  }
  return result;
}

void CastBuilder::storeFromFP8(const SegmentTile &tile, Value first,
                               Value other, Value bytes,
                               ArrayRef<Value> ofPosition) {
  SmallVector<Value> products, words;
  for (Value word : b.unpackWords(bytes))
    for (Value value : b.getHooks().createUnpackFP8(b, word, problem.inputType))
      products.push_back(arith::MulFOp::create(
          b, value, getFactor(ofPosition, products.size())));
  if (problem.outputType.isF32())
    for (Value product : products)
      words.push_back(b.bitcast(b.getI32Type(), product));
  else
    for (size_t i = 0; i < products.size(); i += 2)
      words.push_back(b.packBF16(products[i], products[i + 1]));
  Plane output = getOutputPlane(tile);
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  for (int64_t i : llvm::seq(getOutputBytes()))
    storeChunk(b, output, b.add(first, i * output.getChunk()), other,
               b.packWords(ArrayRef(words).slice(i * kWords, kWords)),
               tile.get(toRows).range);
}

void CastBuilder::convertTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(fromRows), &across = tile.get(!fromRows);
  // Loads behind the last position repeat it.
  SmallVector<Value> others;
  Value firstOther = b.add(across.first, getOtherInTile());
  for (int64_t i : llvm::seq(kPack))
    others.push_back(b.minS(b.add(firstOther, i), b.sub(across.range.high, 1)));
  Value firstLoaded = b.add(along.first, getChunkInTile());
  SmallVector<Value> chunks = loadChunks(b, getInputPlane(tile), firstLoaded,
                                         getInputBytes(), others, along.range);
  if (problem.isToFP8())
    chunks = convertToFP8(tile, firstLoaded, others, chunks);

  // A thread stores chunks of the same positions along.
  Value first = b.add(tile.get(toRows).first, getChunkInTile());
  auto store = [&](Value other, Value bytes, ArrayRef<Value> ofPosition) {
    if (problem.isToFP8())
      storeChunk(b, getOutputPlane(tile), first, other, bytes,
                 tile.get(toRows).range);
    else
      storeFromFP8(tile, first, other, bytes, ofPosition);
  };
  if (fromRows == toRows) {
    SmallVector<SmallVector<Value>> loaded;
    if (!problem.isToFP8())
      loaded = loadFactors(tile, toRows, first, others);
    forEachChunk(tile, [&](int64_t index, Value other) {
      store(other, chunks[index],
            loaded.empty() ? ArrayRef<Value>()
                           : loaded[loaded.size() == 1 ? 0 : index]);
    });
    return;
  }
  // Those of a column are the same for all its rows.
  SmallVector<Value> ofColumns;
  if (!problem.isToFP8() && !problem.hasBlocks() && !toRows)
    ofColumns = factors.load(tile, toRows, first, Value(), kChunk);
  TransposeTile shared(b, /*rowsPerThread=*/kChunk, /*buffers=*/1);
  // Threads may still read the block's previous tile.
  b.createBarrier();
  shared.transpose(b.i64(0), packAcross(b, chunks, b.getI8Type()),
                   [&](Value row, Value, Value bytes) {
                     Value other = b.add(along.first, row);
                     b.createIf(along.contains(b, other), [&] {
                       SmallVector<Value> ofPosition(ofColumns);
                       if (!problem.isToFP8() && ofPosition.empty())
                         ofPosition =
                             factors.load(tile, toRows, first, other, kChunk);
                       store(other, bytes, ofPosition);
                     });
                   });
}

void CastBuilder::zeroTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(toRows);
  Plane output = getOutputPlane(tile);
  Value first = b.add(along.first, getChunkInTile());
  forEachChunk(tile, [&](int64_t, Value other) {
    for (int64_t i : llvm::seq(getOutputBytes()))
      zeroChunk(b, output, b.add(first, i * output.getChunk()), other,
                along.range);
  });
}

void CastBuilder::build() {
  tiles.forEach(fromRows, [&](const SegmentTile &tile) {
    b.createIf(
        tile.isRemainder, [&] { zeroTile(tile); }, [&] { convertTile(tile); });
  });
}

gpu::GPUFuncOp fp8moe::buildCast(Location loc, gpu::GPUModuleOp module,
                                 StringRef name,
                                 const ScaledCastProblem &problem,
                                 const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = problem.jagged ? 4 : 3;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = kCastThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  CastBuilder(b, problem).build();
  return b.getKernel();
}
