//===- Dequantize.cpp - Back from FP8 -------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToGPU/Dequantize/Dequantize.h"

#include "FP8MoEToGPU/Common/SegmentTiles.h"
#include "FP8MoEToGPU/Common/TransposeTile.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Elements that a thread converts at a time: 16 bytes of input.
static constexpr int64_t kChunk = kVectorBytes;
/// Neighbouring positions across the contiguous dimension, of which a thread
/// takes a chunk each: a word of a transposed tile.
static constexpr int64_t kPack = kWordBytes;
static constexpr int64_t kChunksPerTile = kSegmentTile / kChunk;

static_assert(kDequantizeThreads == TransposeTile::kThreads &&
              kSegmentTile == TransposeTile::kRowBytes);

namespace {

class DequantizeBuilder {
public:
  DequantizeBuilder(KernelBuilder &b, const DequantizeProblem &problem);

  void build();

private:
  void convertTile(const SegmentTile &tile);
  void zeroTile(const SegmentTile &tile);

  /// Calls `body` for each of the thread's chunks along the output's contiguous
  /// dimension, with its position across, where that is inside of the tile.
  void forEachChunk(const SegmentTile &tile,
                    function_ref<void(int64_t index, Value other)> body);
  /// The factors of the columns from `first` on, `count` of them (f32).
  SmallVector<Value> loadFactors(const SegmentTile &tile, Value first,
                                 int64_t count);
  /// Stores a chunk of FP8 bytes times one factor, or a factor for each.
  void storeConverted(const SegmentTile &tile, Value first, Value other,
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
                              {inputPointer, /*elementBytes=*/1,
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
  int64_t getOutputBytes() const {
    return problem.outputType.getIntOrFloatBitWidth() / 8;
  }
  SegmentTiles createTiles();

  KernelBuilder &b;
  const DequantizeProblem &problem;
  Value inputPointer, scalesPointer, offsetsPointer, outputPointer;
  DequantizeSizes<Value> sizes;
  /// Whether chunks are taken along rows of the input and of the output.
  bool fromRows, toRows;
  SegmentTiles tiles;
};

} // namespace

DequantizeBuilder::DequantizeBuilder(KernelBuilder &b,
                                     const DequantizeProblem &problem)
    : b(b), problem(problem), fromRows(problem.sizes.inRow == 1),
      toRows(problem.sizes.outRow == 1), tiles(createTiles()) {}

/// Also sets the members that are parameters.
SegmentTiles DequantizeBuilder::createTiles() {
  unsigned pointer = 0, parameter = 0;
  inputPointer = b.getPointer(pointer++);
  scalesPointer = b.getPointer(pointer++);
  if (problem.jagged)
    offsetsPointer = b.getPointer(pointer++);
  outputPointer = b.getPointer(pointer++);
  for (auto [from, to] : llvm::zip_equal(DequantizeSizes<int64_t>::members(),
                                         DequantizeSizes<Value>::members())) {
    int64_t size = problem.sizes.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  return SegmentTiles(b, sizes.segments, sizes.rows, sizes.columns,
                      offsetsPointer);
}

void DequantizeBuilder::forEachChunk(const SegmentTile &tile,
                                     function_ref<void(int64_t, Value)> body) {
  const TileExtent &across = tile.get(!toRows);
  Value first = b.add(across.first, getOtherInTile());
  for (int64_t i : llvm::seq(kPack)) {
    Value other = b.add(first, i);
    b.createIf(across.contains(b, other), [&] { body(i, other); });
  }
}

SmallVector<Value> DequantizeBuilder::loadFactors(const SegmentTile &tile,
                                                  Value first, int64_t count) {
  Value base = b.offsetBytes(
      scalesPointer,
      b.mul(b.mul(tile.segment, sizes.scaleSegment), sizeof(float)));
  SmallVector<Value> bits;
  if (count == 1) {
    Value offset = b.mul(b.mul(first, sizes.scaleColumn), sizeof(float));
    bits.push_back(b.load(b.getI32Type(), b.offsetBytes(base, offset),
                          sizeof(float), /*readOnly=*/true));
  } else {
    Plane scales{base, sizeof(float), sizes.scaleColumn, b.i64(0), Value()};
    scales.vectorizable = createVectorizable(
        b, scalesPointer, problem.scaleAlignment, scales.elementBytes,
        scales.vectorStride, sizes.scaleSegment);
    for (Value words : loadChunks(b, scales, first, count / scales.getChunk(),
                                  b.i64(0), tile.columns.range))
      llvm::append_range(bits, b.unpackWords(words));
  }
  return llvm::map_to_vector(bits, [&](Value word) -> Value {
    Value scale = b.bitcast(b.getF32Type(), word);
    // (Q10).
    return problem.invertsScales ? arith::DivFOp::create(b, b.f32(1.0f), scale)
                                 : scale;
  });
}

void DequantizeBuilder::storeConverted(const SegmentTile &tile, Value first,
                                       Value other, Value bytes,
                                       ArrayRef<Value> factors) {
  SmallVector<Value> products, words;
  for (Value word : b.unpackWords(bytes))
    for (Value value : b.getHooks().createUnpackFP8(b, word, problem.fp8Type)) {
      Value factor = factors[factors.size() == 1 ? 0 : products.size()];
      products.push_back(arith::MulFOp::create(b, value, factor));
    }
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

void DequantizeBuilder::convertTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(fromRows), &across = tile.get(!fromRows);
  // Loads behind the last position repeat it.
  SmallVector<Value> others;
  Value firstOther = b.add(across.first, getOtherInTile());
  for (int64_t i : llvm::seq(kPack))
    others.push_back(b.minS(b.add(firstOther, i), b.sub(across.range.high, 1)));
  SmallVector<Value> chunks =
      loadChunks(b, getInputPlane(tile), b.add(along.first, getChunkInTile()),
                 /*chunks=*/1, others, along.range);

  // A thread stores chunks of the same columns, or one of a column at a time.
  Value first = b.add(tile.get(toRows).first, getChunkInTile());
  SmallVector<Value> factors;
  if (!toRows)
    factors = loadFactors(tile, first, kChunk);
  auto store = [&](Value other, Value bytes) {
    storeConverted(tile, first, other, bytes,
                   toRows ? loadFactors(tile, other, 1) : factors);
  };
  if (fromRows == toRows) {
    forEachChunk(
        tile, [&](int64_t index, Value other) { store(other, chunks[index]); });
    return;
  }
  TransposeTile shared(b, /*rowsPerThread=*/kChunk, /*buffers=*/1);
  // Threads may still read the block's previous tile.
  b.createBarrier();
  shared.transpose(b.i64(0), packAcross(b, chunks, b.getI8Type()),
                   [&](Value row, Value, Value bytes) {
                     Value other = b.add(along.first, row);
                     b.createIf(along.contains(b, other),
                                [&] { store(other, bytes); });
                   });
}

void DequantizeBuilder::zeroTile(const SegmentTile &tile) {
  const TileExtent &along = tile.get(toRows);
  Plane output = getOutputPlane(tile);
  Value first = b.add(along.first, getChunkInTile());
  forEachChunk(tile, [&](int64_t, Value other) {
    for (int64_t i : llvm::seq(getOutputBytes()))
      zeroChunk(b, output, b.add(first, i * output.getChunk()), other,
                along.range);
  });
}

void DequantizeBuilder::build() {
  tiles.forEach(fromRows, [&](const SegmentTile &tile) {
    b.createIf(
        tile.isTail, [&] { zeroTile(tile); }, [&] { convertTile(tile); });
  });
}

gpu::GPUFuncOp fp8moe::buildDequantize(Location loc, gpu::GPUModuleOp module,
                                       StringRef name,
                                       const DequantizeProblem &problem,
                                       const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = problem.jagged ? 4 : 3;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = kDequantizeThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  DequantizeBuilder(b, problem).build();
  return b.getKernel();
}
