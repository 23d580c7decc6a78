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

#include "Kernels/Quantize/TwoPass/TwoPassOuter.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTilePack;
using two_pass::kTileVector;

/// Input chunks that a thread loads before it uses the first of them.
static constexpr int64_t kChunksInFlight = 4;

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

void TwoPassOuterBuilder::storeMagnitudes(ArrayRef<Value> chunks) {
  // Threads of a subgroup that have the same columns combine by shuffles.
  SmallVector<Value> bits;
  for (Value chunk : chunks) {
    for (int64_t mask = getThreadsPerRow(); mask < b.getSubgroupSize();
         mask *= 2) {
      SmallVector<Value> own = b.unpackWords(chunk), other = own;
      for (auto [word, otherWord] : llvm::zip_equal(own, other))
        std::tie(word, otherWord) = b.exchange(word, mask);
      chunk = kernel.math.createMax(b.packWords(own), b.packWords(other));
    }
    llvm::append_range(bits, kernel.math.unpackMagnitudes(chunk));
  }
  b.createIf(b.less(b.getLane(), getThreadsPerRow()), [&] {
    Value element = b.add(b.mul(b.getSubgroup(), columns), getColumnInStrip());
    Value pointer =
        b.offsetBytes(magnitudeMemory, b.mul(element, sizeof(float)));
    for (size_t i = 0; i < bits.size(); i += 4)
      b.store(b.packWords(ArrayRef(bits).slice(i, 4)),
              b.offsetBytes(pointer, i * sizeof(float)), kVectorBytes);
  });
}

void TwoPassOuterBuilder::createOuterScales() {
  storeMagnitudes(createThreadMagnitudes());
  b.createBarrier();

  // One thread a column combines the subgroups.
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value offset = b.mul(b.getThread(), sizeof(float));
    Value pointer = b.offsetBytes(magnitudeMemory, offset), magnitude;
    for (int64_t i : llvm::seq(getNumSubgroups())) {
      Value part = b.load(b.getI32Type(),
                          b.offsetBytes(pointer, i * columns * sizeof(float)),
                          sizeof(float));
      magnitude = magnitude ? b.maxU(magnitude, part) : part;
    }
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
  SmallVector<Value> scales =
      loadSharedScales(b, scaleMemory, getColumnInStrip(), kOutputChunk);
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
  vectorInTile = tile->getWriteRow();
  packInTile = b.mul(tile->getWriteWord(), kTilePack);
  SmallVector<Value> scales = loadSharedScales(
      b, scaleMemory, isFromColumns() ? vectorInTile : packInTile,
      isFromColumns() ? kTileVector : kTilePack);

  Value firstRow = kernel.getFirstChunk(segment.rows);
  Value isEmpty = b.lessEqual(segment.rows.high, segment.rows.low);
  Value endRow = b.select(isEmpty, firstRow, segment.rows.high);
  b.createFor(firstRow, endRow, rowsPerTile, b.i64(0),
              [&](Value row, Value buffer) {
                TransposedStep at = getTransposed(getStep(row), input, output);
                SmallVector<Value> others = getOthers(at);
                auto quantize = [&] {
                  return quantizeTile(loadTile(at, others), scales);
                };
                storeTile(buffer,
                          ifRows(at.step, getSubgroupRow(), quantize,
                                 SmallVector<Value>(kTileVector, b.i32(0))),
                          at);
                return b.bitXor(buffer, 1);
              });
}

void fp8moe::buildTwoPassOuter(QuantizeKernel &kernel, TwoPassTileAttr tile,
                               QuantizeKind kind) {
  TwoPassOuterBuilder(kernel, kind, tile).build();
}
