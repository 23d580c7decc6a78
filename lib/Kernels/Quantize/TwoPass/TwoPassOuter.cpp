//===- TwoPassOuter.cpp - A block quantizes a strip -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block takes a strip of columns of one segment. It computes
// the magnitude of each column, keeps the scales in shared memory, and goes
// over the rows once more to quantize. When input and output are contiguous in
// different dimensions, the second pass transposes tiles of FP8 bytes in
// shared memory.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/TwoPass/OuterStrips.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTilePack;
using two_pass::kTileVector;

namespace {

/// Input chunks that a thread loads before it uses the first of them.
constexpr int64_t kChunksInFlight = 4;

class TwoPassOuterBuilder : OuterStripBuilder {
public:
  using OuterStripBuilder::OuterStripBuilder;

  void build();

private:
  // First pass: scales of the strip, to memory and to shared memory.
  void createScales();
  void createOuterScales();
  void createInnerScales();
  SmallVector<Value> createThreadMagnitudes();

  // Second pass.
  void quantizeOuter();
  void quantizeTransposed();
};

} // namespace

void TwoPassOuterBuilder::build() {
  two_pass::SharedMemory memory(kind, columns, threads, b.getSubgroupSize());
  scaleMemory = b.allocateShared(memory.scales, "scales");
  if (memory.magnitudes)
    magnitudeMemory = b.allocateShared(memory.magnitudes, "magnitudes");
  if (memory.transposedTiles) {
    tile.emplace(b, kTileVector, two_pass::kTileBuffers);
    assert(tile->getBytes() == memory.transposedTiles &&
           "occupancy was predicted for other tiles");
  }

  Value strips = b.ceilDiv(kernel.sizes.parallel, columns);
  Value workTiles = b.mul(kernel.getNumSegments(), strips);
  b.forEachWorkTile(workTiles, [&](Value workTile) {
    segment = kernel.createSegment(b.divU(workTile, strips));
    firstColumn = b.mul(b.remU(workTile, strips), columns);
    createScales();
    if (kernel.problem.scalesOnly)
      return;
    if (tile)
      quantizeTransposed();
    else
      quantizeOuter();
    zeroFill();
  });
}

//===----------------------------------------------------------------------===//
// First pass
//===----------------------------------------------------------------------===//

void TwoPassOuterBuilder::createScales() {
  // Threads may still read the scales of the block's previous strip.
  b.createBarrier();
  if (kind == QuantizeKind::InnerTransposing)
    createInnerScales();
  else
    createOuterScales();
  b.createBarrier();
}

void TwoPassOuterBuilder::createInnerScales() {
  Plane input = kernel.getInputPlane(segment, Along::Rows);
  forEachSubgroupColumn([&](Value inStrip, Value column) {
    Value scale = kernel.math.createScale(
        kernel.reduceSubgroup(kernel.createSliceMagnitude(
            input, column, segment.rows, kernel.getSubgroupTeam())));
    b.createIf(b.equal(b.getLane(), 0), [&] {
      kernel.storeScale(segment, column, scale);
      b.store(scale, b.offsetBytes(scaleMemory, b.mul(inStrip, sizeof(float))),
              sizeof(float));
    });
  });
}

/// Magnitudes of the thread's columns over the rows of its slot, packed as in
/// the input.
SmallVector<Value> TwoPassOuterBuilder::createThreadMagnitudes() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(getColumnsPerThread());
  int64_t rowsInFlight = kChunksInFlight / chunks;
  Value column = b.add(firstColumn, getColumnInStrip());
  // Columns past the last one repeat it, but a thread needs one of its own.
  Value hasColumns = b.less(column, kernel.sizes.parallel);
  Value slot = getRowSlot(), begin = segment.rows.low;
  Value end = segment.rows.high;
  int64_t rowsApart = 1;
  if (countsInSteps()) {
    column = b.select(hasColumns, getColumnInStrip(), 0);
    slot = b.mul(slot, rowsInFlight);
  } else {
    end = b.select(hasColumns, end, 0);
    begin = b.add(begin, slot);
    slot = b.i64(0);
    rowsApart = getRowSlots();
  }
  SmallVector<Value> zero(chunks, b.zeroWords());
  return b.createFor(
      begin, end, getRowSlots() * rowsInFlight, zero,
      [&](Value row, ValueRange carried) {
        Step step = getStep(row);
        auto enlarge = [&] {
          SmallVector<Value> rows;
          for (int64_t i : llvm::seq(rowsInFlight))
            rows.push_back(clampToRows(
                step, b.add(b.add(step.firstRow, slot), i * rowsApart)));
          SmallVector<Value> largest(carried);
          for (auto [i, chunk] : llvm::enumerate(
                   loadChunks(b, moveTo(step, input, Along::Columns), column,
                              chunks, rows, step.columns)))
            largest[i % chunks] =
                kernel.math.createAbsMax(largest[i % chunks], chunk);
          return largest;
        };
        return ifRows(step, b.mul(getFirstRowSlot(), rowsInFlight), enlarge,
                      carried);
      });
}

void TwoPassOuterBuilder::createOuterScales() {
  storeMagnitudes(createThreadMagnitudes());
  b.createBarrier();

  // One thread a column combines the subgroups.
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value offset = b.mul(b.getThread(), sizeof(float));
    Value magnitude = combineMagnitudes(b.offsetBytes(magnitudeMemory, offset),
                                        getNumSubgroups());
    Value scale = kernel.math.createScale(magnitude);
    b.store(scale, b.offsetBytes(scaleMemory, offset), sizeof(float));
    Value column = b.add(firstColumn, b.getThread());
    b.createIf(b.less(column, kernel.sizes.parallel),
               [&] { kernel.storeScale(segment, column, scale); });
  });
}

//===----------------------------------------------------------------------===//
// Second pass
//===----------------------------------------------------------------------===//

void TwoPassOuterBuilder::quantizeOuter() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(kOutputChunk);
  SmallVector<Value> scales = loadScales(getColumnInStrip(), kOutputChunk);
  Value column = b.add(firstColumn, getColumnInStrip());
  Value hasColumns = b.less(column, kernel.sizes.parallel);
  Value end = b.select(hasColumns, segment.rows.high, 0);
  b.createFor(b.add(segment.rows.low, getRowSlot()), end, getRowSlots(),
              [&](Value row) {
                SmallVector<Value> values;
                for (Value chunk :
                     loadChunks(b, input, column, chunks, row, getColumns()))
                  llvm::append_range(values, kernel.math.unpackValues(chunk));
                Value words =
                    b.packWords(kernel.math.createQuantizeOwn(values, scales));
                storeChunk(b, output, column, row, words, getColumns());
              });
}

void TwoPassOuterBuilder::quantizeTransposed() {
  Plane input = kernel.getInputPlane(segment, getInputAlong());
  Plane output = kernel.getOutputPlane(segment, getOutputAlong());
  int64_t rowsPerTile =
      isFromColumns() ? TransposeTile::kRowBytes : tile->getRows();
  enterTiles();
  SmallVector<Value> scales = isFromColumns()
                                  ? loadScales(vectorInTile, kTileVector)
                                  : loadScales(packInTile, kTilePack);

  Value firstRow = kernel.getFirstChunk(segment.rows);
  Value isEmpty = b.lessEqual(segment.rows.high, segment.rows.low);
  Value endRow = b.select(isEmpty, firstRow, segment.rows.high);
  b.createFor(firstRow, endRow, rowsPerTile, b.i64(0),
              [&](Value row, ValueRange carried) {
                TransposedStep at = getTransposed(getStep(row), input, output);
                SmallVector<Value> others = getOthers(at);
                auto quantize = [&] {
                  return quantizeTile(loadTile(at, others), scales);
                };
                storeTile(carried[0],
                          ifRows(at.step, getSubgroupRow(), quantize,
                                 SmallVector<Value>(kTileVector, b.i32(0))),
                          at);
                return SmallVector<Value>{b.bitXor(carried[0], 1)};
              });
}

void fp8moe::buildTwoPassOuter(QuantizeKernel &kernel, TwoPassTileAttr tile,
                               QuantizeKind kind) {
  TwoPassOuterBuilder(kernel, kind, tile.getColumns(), tile.getThreads())
      .build();
}
