//===- TwoPassOuterTiles.cpp - Steps and tiles of a strip -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/TwoPass/TwoPassOuter.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTilePack;
using two_pass::kTileVector;

/// Distances in bytes that a lane can add in 32 bits.
static constexpr int64_t kNearBytes = int64_t(1) << 31;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Step TwoPassOuterBuilder::getStep(Value row) {
  if (!countsInSteps())
    return {Value(), row, firstColumn, segment.rows, getColumns()};
  // No step has as many rows or columns as 31 bits count.
  auto countLeft = [&](Value end, Value origin) {
    Value left =
        b.minS(b.sub(end, origin), std::numeric_limits<int32_t>::max());
    return b.zeroExtend(b.getI64Type(), b.truncate(b.getI32Type(), left));
  };
  Value zero = b.i64(0);
  // A chunk that cannot be loaded at once is moved to rows or columns before
  // those of the step.
  bool isInner = kind == QuantizeKind::InnerTransposing;
  return {row,
          zero,
          zero,
          {isInner ? b.sub(segment.rows.low, row) : zero,
           countLeft(segment.rows.high, row)},
          {b.sub(zero, firstColumn),
           countLeft(kernel.sizes.parallel, firstColumn)}};
}

Plane TwoPassOuterBuilder::moveTo(const Step &step, Plane plane, Along along) {
  if (!step.origin)
    return plane;
  plane.base = along == Along::Rows
                   ? createElementPointer(b, plane, step.origin, firstColumn)
                   : createElementPointer(b, plane, firstColumn, step.origin);
  // A tile is at most as many rows and columns as a block has threads.
  std::optional<int64_t> pitch = getConstantIntValue(plane.otherStride);
  plane.isNear =
      pitch && *pitch < kNearBytes / (threads + 1) / plane.elementBytes;
  return plane;
}

Value TwoPassOuterBuilder::clampToRows(const Step &step, Value row) {
  Value last = b.sub(step.rows.high, 1);
  if (!step.origin)
    return b.clamp(row, step.rows.low, last);
  auto narrow = [&](Value number) {
    return b.truncate(b.getI32Type(), number);
  };
  return b.zeroExtend(b.getI64Type(), b.minU(narrow(row), narrow(last)));
}

SmallVector<Value>
TwoPassOuterBuilder::ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others) {
  if (!step.origin)
    return values();
  return b.createIf(b.less(row, step.rows.high), values,
                    [&] { return SmallVector<Value>(others); });
}

void TwoPassOuterBuilder::forEachSubgroupColumn(
    function_ref<void(Value, Value)> body) {
  b.createFor(b.getSubgroup(), b.i64(columns), getNumSubgroups(),
              [&](Value inStrip) {
                Value column = b.add(firstColumn, inStrip);
                b.createIf(b.less(column, kernel.sizes.parallel),
                           [&] { body(inStrip, column); });
              });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

TransposedStep TwoPassOuterBuilder::getTransposed(const Step &step,
                                                  const Plane &input,
                                                  const Plane &output) {
  bool fromColumns = isFromColumns();
  TransposedStep at;
  at.step = step;
  at.from = moveTo(step, input, getInputAlong());
  at.to = moveTo(step, output, getOutputAlong());
  at.inputRange = fromColumns ? step.columns : step.rows;
  at.outputRange = fromColumns ? step.rows : step.columns;
  at.vectorOrigin = fromColumns ? step.firstColumn : step.firstRow;
  at.packOrigin = fromColumns ? step.firstRow : step.firstColumn;
  return at;
}

SmallVector<Value> TwoPassOuterBuilder::getOthers(const TransposedStep &at) {
  Value pack = b.add(at.packOrigin, packInTile);
  SmallVector<Value> others;
  for (int64_t i : llvm::seq(kTilePack)) {
    Value other = b.add(pack, i);
    others.push_back(isFromColumns() ? clampToRows(at.step, other)
                                     : b.clamp(other, at.outputRange.low,
                                               b.sub(at.outputRange.high, 1)));
  }
  return others;
}

Value TwoPassOuterBuilder::getSubgroupRow() {
  return isFromColumns() ? b.mul(tile->getFirstWriteWord(), kTilePack)
                         : b.i64(0);
}

SmallVector<Value> TwoPassOuterBuilder::loadTile(const TransposedStep &at,
                                                 ArrayRef<Value> others) {
  return loadChunks(b, at.from, b.add(at.vectorOrigin, vectorInTile),
                    kernel.getInputChunks(kTileVector), others, at.inputRange);
}

SmallVector<Value> TwoPassOuterBuilder::quantizeTile(ArrayRef<Value> chunks,
                                                     ArrayRef<Value> scales) {
  SmallVector<Value> values;
  for (Value chunk : chunks)
    llvm::append_range(values, kernel.math.unpackValues(chunk));

  // Word i holds element i of each of the kTilePack vectors.
  SmallVector<Value> packed, packedScales;
  for (int64_t i : llvm::seq(kTileVector))
    for (int64_t j : llvm::seq(kTilePack)) {
      packed.push_back(values[j * kTileVector + i]);
      packedScales.push_back(scales[isFromColumns() ? i : j]);
    }
  return kernel.math.createQuantizeOwn(packed, packedScales);
}

void TwoPassOuterBuilder::storeTile(Value buffer, ArrayRef<Value> words,
                                    const TransposedStep &at) {
  tile->transpose(
      buffer, words, [&](Value rowInTile, Value chunk, Value words) {
        Value other = b.add(at.vectorOrigin, rowInTile);
        Value inside = b.bitAnd(b.lessEqual(at.inputRange.low, other),
                                b.less(other, at.inputRange.high));
        b.createIf(inside, [&] {
          Value first = b.add(at.packOrigin, b.mul(chunk, kOutputChunk));
          if (isFromColumns() && at.to.isUnaligned())
            storeMovedRows(buffer, {rowInTile, chunk, first, other}, at.to,
                           words, at.outputRange);
          else
            storeChunk(b, at.to, first, other, words, at.outputRange);
        });
      });
}

/// The tile before is still in the other buffer: only the last step of a
/// segment has chunks that are cut, and the next strip begins with a barrier.
void TwoPassOuterBuilder::storeMovedRows(Value buffer, const TileChunk &at,
                                         const Plane &output, Value words,
                                         IndexRange rows) {
  constexpr int64_t kChunks = TransposeTile::kRowBytes / kOutputChunk;
  auto store = [&] { storeChunk(b, output, at.first, at.other, words, rows); };
  Value start = b.sub(rows.high, kOutputChunk);
  auto storeMoved = [&] {
    // Chunks of a row through both buffers, which follow each other.
    Value before = b.bitAnd(b.add(b.add(b.mul(buffer, kChunks), at.chunk), -1),
                            two_pass::kTileBuffers * kChunks - 1);
    before = tile->loadChunk(b.divU(before, kChunks), at.row,
                             b.remU(before, kChunks));
    // It begins in the chunk before, `at.first` less 16.
    Value offset =
        b.truncate(b.getI32Type(), b.add(b.sub(start, at.first), kOutputChunk));
    Value moved = createWordsAt(b, before, words, offset);
    b.store(moved, createElementPointer(b, output, start, at.other),
            output.vectorAlignment);
  };
  Value length = b.sub(segment.rows.high, segment.rows.low);
  b.createIf(b.lessEqual(at.first, start), store, [&] {
    b.createIf(b.less(at.first, rows.high), [&] {
      b.createIf(b.lessEqual(b.i64(kOutputChunk), length), storeMoved, store);
    });
  });
}

void TwoPassOuterBuilder::zeroFill() {
  if (!kernel.problem.jagged)
    return;
  IndexRange rows = segment.zeroRows;
  // Mostly there are none, which costs nothing where a subgroup knows it.
  if (b.getTarget().has(Feature::ScalarRegisters))
    b.createIf(b.less(rows.low, rows.high), [&] { zeroFill(rows); });
  else
    zeroFill(rows);
}

void TwoPassOuterBuilder::zeroFill(IndexRange rows) {
  if (kind == QuantizeKind::OuterTransposing) {
    Plane output = kernel.getOutputPlane(segment, Along::Rows);
    forEachSubgroupColumn([&](Value, Value column) {
      kernel.createSliceZeroFill(output, column, rows,
                                 kernel.getSubgroupTeam());
    });
    return;
  }
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t threadsPerRow = columns / kOutputChunk;
  Value column = b.add(
      firstColumn, b.mul(b.remU(b.getThread(), threadsPerRow), kOutputChunk));
  Value slot = b.divU(b.getThread(), threadsPerRow);
  b.createFor(
      b.add(rows.low, slot), rows.high, threads / threadsPerRow,
      [&](Value row) { zeroChunk(b, output, column, row, getColumns()); });
}
