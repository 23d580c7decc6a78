//===- CastFactors.cpp - What elements are multiplied by ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/Cast.h"

#include "Kernels/Emit/ScaleTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kTableEntryBytes = 2;

SmallVector<Value> CastFactors::loadColumns(const SegmentTile &tile,
                                            Value first, int64_t count) {
  Value base = b.offsetBytes(
      scalesPointer,
      b.mul(b.mul(tile.segment, sizes.scaleSegment), sizeof(float)));
  SmallVector<Value> bits;
  if (count == 1) {
    Value offset = b.mul(b.mul(first, sizes.scaleLine), sizeof(float));
    bits.push_back(b.load(b.getI32Type(), b.offsetBytes(base, offset),
                          sizeof(float), /*readOnly=*/true));
  } else {
    Plane scales{base, sizeof(float), sizes.scaleLine, b.i64(0), Value()};
    scales.vectorizable = createVectorizable(
        b, scalesPointer, problem.scaleAlignment, scales.elementBytes,
        scales.vectorStride, sizes.scaleSegment);
    scales.savesRegisters = true;
    for (Value words : loadChunks(b, scales, first, count / scales.getChunk(),
                                  b.i64(0), tile.columns.range))
      llvm::append_range(bits, b.unpackWords(words));
  }
  return llvm::map_to_vector(bits, [&](Value word) -> Value {
    Value scale = b.bitcast(b.getF32Type(), word);
    // (Q10).
    return problem.scales == CastScales::ColumnReciprocals
               ? arith::DivFOp::create(b, b.f32(1.0f), scale)
               : scale;
  });
}

/// (X8). Behind the last line or element it is that of the last one.
Value CastFactors::loadBlock(const SegmentTile &tile, Value line,
                             Value element) {
  bool linesAreRows = problem.scales == CastScales::ColumnBlocks;
  const TileExtent &lines = tile.get(linesAreRows);
  const TileExtent &elements = tile.get(!linesAreRows);
  line = b.minS(line, b.sub(lines.range.high, 1));
  element = b.minS(element, b.sub(elements.range.high, 1));
  Value address;
  if (problem.tiledScales) {
    address = b.offsetBytes(
        createScaleTile(b, scalesPointer, tiles, tile, linesAreRows),
        createOffsetInScaleTile(
            b, b.sub(line, lines.first),
            b.divU(b.sub(element, elements.first), kMXBlock)));
  } else {
    Value offset = b.add(b.mul(tile.batch, sizes.scaleSegment),
                         b.mul(line, sizes.scaleLine));
    address =
        b.offsetBytes(scalesPointer, b.add(offset, b.divU(element, kMXBlock)));
  }
  return b.zeroExtend(b.getI32Type(),
                      b.load(b.getI8Type(), address, /*alignment=*/1,
                             /*readOnly=*/true));
}

SmallVector<Value> CastFactors::load(const SegmentTile &tile, bool alongRows,
                                     Value first, Value other, int64_t count) {
  if (!problem.hasBlocks())
    return alongRows ? loadColumns(tile, other, 1)
                     : loadColumns(tile, first, count);
  // A chunk along blocks is in one of them.
  if (areAlongBlocks(alongRows))
    return {createBlockScale(b, loadBlock(tile, other, first))};
  SmallVector<Value> factors;
  for (int64_t i : llvm::seq(count))
    factors.push_back(
        createBlockScale(b, loadBlock(tile, b.add(first, i), other)));
  return factors;
}

bool CastFactors::areShared(bool alongRows) const {
  if (!problem.hasBlocks())
    return !alongRows;
  return !areAlongBlocks(alongRows);
}

Value CastFactors::getInTable(Value line, Value block) {
  Value entry = b.add(b.mul(block, kSegmentTile), line);
  return b.offsetBytes(table, b.mul(entry, kTableEntryBytes));
}

void CastFactors::fillTable(const SegmentTile &tile) {
  constexpr int64_t kEntries = kSegmentTile * kScaleTileBlocks;
  assert(kEntries % b.getNumThreads() == 0);
  if (!table)
    table = b.allocateShared(kEntries * kTableEntryBytes, "factors");
  bool linesAreRows = problem.scales == CastScales::ColumnBlocks;
  for (int64_t i = 0; i < kEntries; i += b.getNumThreads()) {
    // Neighbouring blocks lie behind each other in memory.
    Value entry = b.add(b.getThread(), i);
    Value line = b.divU(entry, kScaleTileBlocks);
    Value block = b.remU(entry, kScaleTileBlocks);
    Value byte =
        loadBlock(tile, b.add(tile.get(linesAreRows).first, line),
                  b.add(tile.get(!linesAreRows).first, b.mul(block, kMXBlock)));
    Value factor =
        b.truncate(b.getI16Type(), createBlockScaleBF16Bits(b, byte));
    b.store(factor, getInTable(line, block), kTableEntryBytes);
  }
}

SmallVector<Value> CastFactors::loadFromTable(bool alongRows, Value first,
                                              Value other, int64_t count) {
  SmallVector<Value> bits;
  if (areAlongBlocks(alongRows)) {
    Value factor =
        b.load(b.getI16Type(), getInTable(other, b.divU(first, kMXBlock)),
               kTableEntryBytes);
    bits.push_back(b.widenLowBF16(b.zeroExtend(b.getI32Type(), factor)));
  } else {
    int64_t bytes = count * kTableEntryBytes;
    Value factors = b.load(VectorType::get(bytes / kWordBytes, b.getI32Type()),
                           getInTable(first, b.divU(other, kMXBlock)), bytes);
    for (Value word : b.unpackWords(factors))
      llvm::append_range(bits,
                         ArrayRef{b.widenLowBF16(word), b.widenHighBF16(word)});
  }
  return llvm::map_to_vector(
      bits, [&](Value factor) { return b.bitcast(b.getF32Type(), factor); });
}
