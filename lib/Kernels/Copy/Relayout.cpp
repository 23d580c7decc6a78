//===- Relayout.cpp - Copy between strided layouts ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Copy/Relayout.h"
#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/SegmentBounds.h"
#include "Kernels/Emit/ShiftedLines.h"
#include "Kernels/Emit/TransposeTile.h"

using namespace mlir;
using namespace mlir::fp8moe;

static_assert(kRelayoutChunkBytes == kVectorBytes &&
              kRelayoutTileBytes == TransposeTile::kRowBytes);

namespace {

class RelayoutBuilder {
public:
  RelayoutBuilder(KernelBuilder &b, const RelayoutProblem &problem);

  void build();

private:
  void copy();
  /// Where the elements of some indices lie, relative to the buffers' begin.
  struct Offsets {
    Value input, output;
  };

  void buildVectors();
  void buildTiles();
  void buildElements();
  void buildGroups();

  /// Splits a linear index over the dimensions in `order`, the last of which
  /// varies fastest; `sizes` replaces the dimensions' own sizes.
  SmallVector<Value> splitIndex(Value linear, ArrayRef<int64_t> order,
                                ArrayRef<Value> sizes);
  Value getProduct(ArrayRef<int64_t> order, ArrayRef<Value> sizes);
  /// All dimensions but those given, in order.
  SmallVector<int64_t> getOtherDims(ArrayRef<int64_t> without);
  Offsets getOffsets(ArrayRef<int64_t> order, ValueRange indices);
  /// The plane of two dimensions at `offset`, accessed in chunks along `dim`.
  Plane getPlane(bool isOutput, Value offset, int64_t dim, int64_t otherDim);
  void storeElement(Value element, Value offset);
  Value loadElement(Value offset);

  KernelBuilder &b;
  const RelayoutProblem &problem;
  RelayoutConfig config;
  /// Elements of a chunk.
  int64_t chunk;
  Value input, offsets, output;
  SmallVector<RelayoutDim<Value>> dims;
  /// Sizes of the dimensions.
  SmallVector<Value> sizes;
  RelayoutGroups<Value> groups;
};

} // namespace

RelayoutBuilder::RelayoutBuilder(KernelBuilder &b,
                                 const RelayoutProblem &problem)
    : b(b), problem(problem), config(RelayoutConfig::get(problem)),
      chunk(kRelayoutChunkBytes / problem.elementBytes) {
  unsigned pointer = 0, parameter = 0;
  input = b.getPointer(pointer++, "input");
  if (problem.padding)
    offsets = b.getPointer(pointer++, "group_ends");
  output = b.getPointer(pointer++, "output");
  for (const RelayoutDim<int64_t> &dim : problem.dims) {
    dims.push_back(bindSizes(b, dim, parameter));
    sizes.push_back(dims.back().size);
  }
  if (problem.padding)
    groups = bindSizes(b, problem.groups, parameter);
}

void RelayoutBuilder::build() {
  if (!problem.mayBeSame)
    return copy();
  auto getAddress = [&](Value pointer) -> Value {
    return LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  };
  Value isElsewhere = b.compare(arith::CmpIPredicate::ne, getAddress(input),
                                getAddress(output));
  b.createIf(isElsewhere, [&] { copy(); });
}

void RelayoutBuilder::copy() {
  switch (config.kind) {
  case RelayoutConfig::Vectors:
    return buildVectors();
  case RelayoutConfig::Tiles:
    return buildTiles();
  case RelayoutConfig::Elements:
    return buildElements();
  case RelayoutConfig::Groups:
    return buildGroups();
  }
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

SmallVector<int64_t> RelayoutBuilder::getOtherDims(ArrayRef<int64_t> without) {
  SmallVector<int64_t> others;
  for (int64_t dim : llvm::seq<int64_t>(dims.size()))
    if (!llvm::is_contained(without, dim))
      others.push_back(dim);
  return others;
}

Value RelayoutBuilder::getProduct(ArrayRef<int64_t> order,
                                  ArrayRef<Value> sizes) {
  Value product = b.i64(1);
  for (int64_t dim : order)
    product = b.mul(product, sizes[dim]);
  return product;
}

SmallVector<Value> RelayoutBuilder::splitIndex(Value linear,
                                               ArrayRef<int64_t> order,
                                               ArrayRef<Value> sizes) {
  SmallVector<Value> indices(order.size());
  for (size_t i = order.size(); i-- > 1;) {
    indices[i] = b.remU(linear, sizes[order[i]]);
    linear = b.divU(linear, sizes[order[i]]);
  }
  if (!order.empty())
    indices[0] = linear;
  return indices;
}

RelayoutBuilder::Offsets RelayoutBuilder::getOffsets(ArrayRef<int64_t> order,
                                                     ValueRange indices) {
  Offsets result{b.i64(0), b.i64(0)};
  for (auto [dim, index] : llvm::zip_equal(order, indices)) {
    result.input = b.add(result.input, b.mul(index, dims[dim].inStride));
    result.output = b.add(result.output, b.mul(index, dims[dim].outStride));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Plane RelayoutBuilder::getPlane(bool isOutput, Value offset, int64_t dim,
                                int64_t otherDim) {
  auto getStride = [&](int64_t i) {
    return isOutput ? dims[i].outStride : dims[i].inStride;
  };
  Value pointer = isOutput ? output : input;
  SmallVector<Value> pitches;
  for (int64_t i : getOtherDims(dim))
    pitches.push_back(getStride(i));
  Plane plane;
  plane.base = b.offsetBytes(pointer, b.mul(offset, problem.elementBytes));
  plane.elementBytes = problem.elementBytes;
  plane.vectorStride = getStride(dim);
  plane.otherStride = getStride(otherDim);
  plane.vectorizable = createVectorizable(
      b, pointer, isOutput ? problem.outputAlignment : problem.inputAlignment,
      problem.elementBytes, plane.vectorStride, pitches);
  return plane;
}

Value RelayoutBuilder::loadElement(Value offset) {
  return b.load(b.getIntegerType(problem.elementBytes * 8),
                b.offsetBytes(input, b.mul(offset, problem.elementBytes)),
                problem.elementBytes, /*readOnly=*/true);
}

void RelayoutBuilder::storeElement(Value element, Value offset) {
  b.store(element, b.offsetBytes(output, b.mul(offset, problem.elementBytes)),
          problem.elementBytes);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

void RelayoutBuilder::buildVectors() {
  int64_t dim = config.inputDim;
  SmallVector<int64_t> others = getOtherDims(dim);
  Value chunksPerRow = b.ceilDiv(dims[dim].size, chunk);
  Value chunks = b.mul(getProduct(others, sizes), chunksPerRow);
  IndexRange range{b.i64(0), dims[dim].size};
  // A plane needs a second dimension; the offsets already hold all others.
  Value zero = b.i64(0);
  b.forEachWorkTile(
      b.ceilDiv(chunks, kRelayoutBlockChunks), [&](Value workTile) {
        Value first =
            b.add(b.mul(workTile, kRelayoutBlockChunks), b.getThread());
        for (int64_t i : llvm::seq(kRelayoutChunksInFlight)) {
          Value index = b.add(first, i * kRelayoutThreads);
          b.createIf(b.less(index, chunks), [&] {
            Value row = others.empty() ? zero : b.divU(index, chunksPerRow);
            Value chunkInRow =
                others.empty() ? index : b.remU(index, chunksPerRow);
            Offsets offset = getOffsets(others, splitIndex(row, others, sizes));
            Value element = b.mul(chunkInRow, chunk);
            Value words = loadChunks(b, getPlane(false, offset.input, dim, dim),
                                     element, 1, zero, range)
                              .front();
            storeChunk(b, getPlane(true, offset.output, dim, dim), element,
                       zero, words, range);
          });
        }
      });
}

void RelayoutBuilder::buildTiles() {
  int64_t inDim = config.inputDim, outDim = config.outputDim;
  SmallVector<int64_t> others = getOtherDims({inDim, outDim});
  int64_t perWord = kWordBytes / problem.elementBytes;
  int64_t extent = kRelayoutTileBytes / problem.elementBytes;
  TransposeTile tile(b, /*rowsPerThread=*/chunk, /*buffers=*/1);
  IndexRange inRange{b.i64(0), dims[inDim].size};
  IndexRange outRange{b.i64(0), dims[outDim].size};
  Value tilesIn = b.ceilDiv(inRange.high, extent);
  Value tilesOut = b.ceilDiv(outRange.high, extent);
  Value tiles = b.mul(tilesIn, tilesOut);

  Value workTiles = b.mul(getProduct(others, sizes), tiles);
  b.forEachWorkTile(workTiles, [&](Value workTile) {
    Value batch = others.empty() ? b.i64(0) : b.divU(workTile, tiles);
    Value tileIndex = others.empty() ? workTile : b.remU(workTile, tiles);
    Offsets offset = getOffsets(others, splitIndex(batch, others, sizes));
    Value inOrigin = b.mul(b.remU(tileIndex, tilesIn), extent);
    Value outOrigin = b.mul(b.divU(tileIndex, tilesIn), extent);

    Value first = b.add(inOrigin, tile.getWriteRow());
    Value firstOther = b.add(outOrigin, b.mul(tile.getWriteWord(), perWord));
    SmallVector<Value> others;
    for (int64_t i : llvm::seq(perWord))
      others.push_back(b.minS(b.add(firstOther, i), b.sub(outRange.high, 1)));
    SmallVector<Value> words =
        packAcross(b,
                   loadChunks(b, getPlane(false, offset.input, inDim, outDim),
                              first, 1, others, inRange),
                   b.getIntegerType(problem.elementBytes * 8));
    // Threads may still read the block's previous tile.
    b.createBarrier();
    Plane target = getPlane(true, offset.output, outDim, inDim);
    tile.write(b.i64(0), words);
    auto storeChunks = [&] {
      tile.forEachChunk(
          b.i64(0), [&](Value row, Value chunkInRow, Value words) {
            Value other = b.add(inOrigin, row);
            b.createIf(b.less(other, inRange.high), [&] {
              storeChunk(b, target, b.add(outOrigin, b.mul(chunkInRow, chunk)),
                         other, words, outRange);
            });
          });
    };
    storeLines(b, target, TileExtent{inRange, inOrigin, Value()},
               TileExtent{outRange, outOrigin, Value()}, tile, b.i64(0),
               storeChunks);
  });
}

void RelayoutBuilder::buildElements() {
  SmallVector<int64_t> order = getOtherDims({});
  Value elements = getProduct(order, sizes);
  b.forEachWorkTile(b.ceilDiv(elements, kRelayoutThreads), [&](Value workTile) {
    Value linear = b.add(b.mul(workTile, kRelayoutThreads), b.getThread());
    b.createIf(b.less(linear, elements), [&] {
      Offsets offset = getOffsets(order, splitIndex(linear, order, sizes));
      storeElement(loadElement(offset.input), offset.output);
    });
  });
}

void RelayoutBuilder::buildGroups() {
  const RelayoutPadding &padding = *problem.padding;
  SmallVector<int64_t> order = getOtherDims({});
  Value workTiles = b.mul(b.add(groups.count, 1), kRelayoutGroupBlocks);
  b.forEachWorkTile(workTiles, [&](Value workTile) {
    Value group = b.divU(workTile, kRelayoutGroupBlocks);
    Value share = b.remU(workTile, kRelayoutGroupBlocks);
    auto getBounds = [&](int64_t multiple) {
      return createSegmentBounds(b, offsets, group, groups.count, groups.rows,
                                 multiple);
    };
    Segment from = getBounds(padding.input);
    Segment to = getBounds(padding.output);
    // The lengths that padded groups promise may exceed the input.
    Value length = b.minS(to.length, b.sub(groups.inputSize, from.paddedStart));
    // The group's rows of the output, with its padding; the remainder rows have
    // the rest.
    Value isRemainder = b.equal(group, groups.count);
    Value rows =
        b.select(isRemainder, b.sub(dims[padding.dim].size, to.paddedStart),
                 b.roundUp(to.length, padding.output));
    SmallVector<Value> sizes = this->sizes;
    sizes[padding.dim] = rows;
    Value elements = getProduct(order, sizes);
    Value first = b.add(b.mul(share, kRelayoutThreads), b.getThread());
    b.createFor(
        first, elements, kRelayoutGroupBlocks * kRelayoutThreads,
        [&](Value linear) {
          SmallVector<Value> indices = splitIndex(linear, order, sizes);
          Value row = indices[padding.dim];
          indices[padding.dim] = b.add(from.paddedStart, row);
          Value source = getOffsets(order, indices).input;
          indices[padding.dim] = b.add(to.paddedStart, row);
          Value target = getOffsets(order, indices).output;
          auto elementType = b.getIntegerType(problem.elementBytes * 8);
          Value element = b.createIf(
              b.less(row, length), [&] { return loadElement(source); },
              [&] { return arith::ConstantIntOp::create(b, elementType, 0); });
          storeElement(element, target);
        });
  });
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

RelayoutConfig RelayoutConfig::get(const RelayoutProblem &problem) {
  if (problem.padding)
    return {Groups};
  std::optional<int64_t> inputDim, outputDim;
  for (auto [i, dim] : llvm::enumerate(problem.dims)) {
    if (dim.inStride == 1)
      inputDim = i;
    if (dim.outStride == 1)
      outputDim = i;
    // A dimension that is contiguous on both sides beats any other.
    if (dim.inStride == 1 && dim.outStride == 1)
      break;
  }
  if (!inputDim || !outputDim)
    return {Elements};
  return {*inputDim == *outputDim ? Vectors : Tiles, *inputDim, *outputDim};
}

void fp8moe::buildRelayout(KernelBuilder &b, const RelayoutProblem &problem) {
  RelayoutBuilder(b, problem).build();
}
