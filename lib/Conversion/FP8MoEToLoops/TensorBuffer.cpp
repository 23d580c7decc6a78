//===- TensorBuffer.cpp - Tensors in memory -------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorBuffer.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The byte of element (.., r, c) of block scales: tiles of `rows` x `cols`,
/// row of tiles by row of tiles, and within a tile 32 rows of four bytes
/// interleaved.
static Value getBlockedOffset(LoopBuilder &b, ScaleBlockedEncodingAttr layout,
                              ArrayRef<Value> sizes, ArrayRef<Value> indices) {
  const int64_t tileRows = layout.getRows(), tileCols = layout.getCols();
  const int64_t interleavedRows = 32;
  const size_t rowDim = indices.size() - 2;
  Value row = indices[rowDim], col = indices.back();
  Value tilesPerRow = b.ceilDiv(sizes.back(), tileCols);
  Value tileRow = b.div(row, tileRows);
  if (indices.size() == 3)
    tileRow =
        b.add(tileRow, b.mul(indices[0], b.ceilDiv(sizes[rowDim], tileRows)));
  Value tile = b.add(b.mul(tileRow, tilesPerRow), b.div(col, tileCols));

  Value rowInTile = b.remainder(row, tileRows);
  Value inTile =
      b.add(b.add(b.mul(b.remainder(rowInTile, interleavedRows),
                        tileRows / interleavedRows * tileCols),
                  b.mul(b.div(rowInTile, interleavedRows), tileCols)),
            b.remainder(col, tileCols));
  return b.add(b.mul(tile, tileRows * tileCols), inTile);
}

SmallVector<Value>
TensorBuffer::getPhysicalIndices(LoopBuilder &b,
                                 ArrayRef<Value> indices) const {
  if (auto blocked =
          dyn_cast_or_null<ScaleBlockedEncodingAttr>(type.getEncoding()))
    return {getBlockedOffset(b, blocked, sizes, indices)};
  return llvm::to_vector(indices);
}

Value TensorBuffer::load(LoopBuilder &b, ArrayRef<Value> indices) const {
  return memref::LoadOp::create(b, memref, getPhysicalIndices(b, indices));
}

void TensorBuffer::store(LoopBuilder &b, Value value,
                         ArrayRef<Value> indices) const {
  memref::StoreOp::create(b, value, memref, getPhysicalIndices(b, indices));
}

SmallVector<int64_t> TensorBuffer::getMemoryOrder() const {
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  return layout ? layout->order : identityPermutation(type.getRank());
}

void TensorBuffer::forEachElement(
    LoopBuilder &b, function_ref<void(ArrayRef<Value>)> body) const {
  SmallVector<Value> lowers(sizes.size(), b.index(0));
  b.nest(getMemoryOrder(), lowers, sizes, body);
}

void TensorBuffer::forEachElement(
    LoopBuilder &b, int64_t dim, Value lower, Value upper,
    function_ref<void(ArrayRef<Value>)> body) const {
  SmallVector<Value> lowers(sizes.size(), b.index(0)), uppers(sizes);
  lowers[dim] = lower;
  uppers[dim] = upper;
  b.nest(getMemoryOrder(), lowers, uppers, body);
}

void TensorBuffer::fillZero(LoopBuilder &b) const {
  Value zero = b.zero(getElementType());
  if (!isa_and_nonnull<ScaleBlockedEncodingAttr>(type.getEncoding()))
    return forEachElement(
        b, [&](ArrayRef<Value> indices) { store(b, zero, indices); });
  Value bytes = b.createOrFold<memref::DimOp>(memref, 0);
  b.forEach(b.index(0), bytes,
            [&](Value i) { memref::StoreOp::create(b, zero, memref, i); });
}

void TensorBuffer::fillZero(LoopBuilder &b, int64_t dim, Value lower,
                            Value upper) const {
  Value zero = b.zero(getElementType());
  forEachElement(b, dim, lower, upper,
                 [&](ArrayRef<Value> indices) { store(b, zero, indices); });
}

void mlir::fp8moe::copyElements(LoopBuilder &b, const TensorBuffer &source,
                                const TensorBuffer &destination) {
  if (isa_and_nonnull<ScaleBlockedEncodingAttr>(destination.type.getEncoding()))
    destination.fillZero(b);
  destination.forEachElement(b, [&](ArrayRef<Value> indices) {
    destination.store(b, source.load(b, indices), indices);
  });
}
