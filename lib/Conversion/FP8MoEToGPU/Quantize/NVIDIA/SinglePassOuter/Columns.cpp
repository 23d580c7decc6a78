//===- Columns.cpp - Stores the columns of a tile -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Columns.h"

#include "FP8MoEToGPU/Common/MemoryAccess.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

ColumnStores::ColumnStores(SinglePassOuterKernel &kernel, Value warp)
    : k(kernel), b(kernel.b) {
  position = b.remU(k.lane, kCellLanes);
  exchange = k.getExchange(warp, b.divU(k.lane, kCellLanes));
}

void ColumnStores::store(const CellWords &words, const StoredRows &rows,
                         function_ref<ColumnSeams()> createSeams) {
  b.createIf(
      k.isAligned, [&] { storeAligned(words, rows); },
      [&] { storeShifted(words, rows, createSeams()); });
}

/// That of each column.
SmallVector<Value> ColumnStores::getPointers(Value first, size_t columns) {
  SmallVector<Value> pointers{first};
  while (pointers.size() < columns)
    pointers.push_back(b.offsetBytes(pointers.back(), k.sizes.outParallel));
  return pointers;
}

/// The word that byte `index` of a column is in, shifted so that this byte is
/// the lowest.
static Value createWordAt(KernelBuilder &b, ArrayRef<Value> column,
                          Value index) {
  Value upper = b.compare(arith::CmpIPredicate::ne, b.bitAnd(index, 8), 0);
  Value odd = b.compare(arith::CmpIPredicate::ne, b.bitAnd(index, 4), 0);
  Value word = b.select(odd, b.select(upper, column[3], column[1]),
                        b.select(upper, column[2], column[0]));
  return b.shiftRight(word, b.mul(b.bitAnd(index, 3), 8));
}

/// Part of an aligned cell, in pieces of 1 to 8 bytes: ever larger ones up to
/// an address that fits the larger ones, then ever smaller ones.
void ColumnStores::storePieces(const CellWords &words, ArrayRef<Value> pointers,
                               Value low, Value high) {
  Value at = low;
  auto storePiece = [&](int64_t bytes, bool isGrowing) {
    Value fits = b.lessEqual(b.add(at, bytes), high);
    if (isGrowing)
      fits = k.both(fits, k.isNonZero(b.bitAnd(at, bytes)));
    at =
        b.createIf(
             fits, b.getI32Type(),
             [&] {
               for (auto [column, pointer] : llvm::zip_equal(words, pointers)) {
                 Value address = b.offsetBytes(pointer, k.widen(at));
                 if (bytes == 8) {
                   Value isUpper = k.isNonZero(at);
                   Value pair = vector::FromElementsOp::create(
                       b, VectorType::get(2, b.getI32Type()),
                       {b.select(isUpper, column[2], column[0]),
                        b.select(isUpper, column[3], column[1])});
                   b.store(pair, address, bytes);
                   continue;
                 }
                 Value word = createWordAt(b, column, at);
                 b.store(b.truncate(b.getIntegerType(8 * bytes), word), address,
                         bytes);
               }
               return SmallVector<Value>{b.add(at, bytes)};
             },
             [&] { return SmallVector<Value>{at}; })
            .front();
  };
  for (int64_t bytes : {1, 2, 4})
    storePiece(bytes, /*isGrowing=*/true);
  for (int64_t bytes : {8, 4, 2, 1})
    storePiece(bytes, /*isGrowing=*/false);
}

void ColumnStores::storeAligned(const CellWords &words,
                                const StoredRows &rows) {
  Value firstRow = b.mul(position, kCellRows);
  SmallVector<Value> pointers =
      getPointers(b.offsetBytes(rows.pointer, k.widen(firstRow)), words.size());
  Value low = b.sub(rows.low, firstRow);
  Value high = b.sub(rows.high, firstRow);
  Value isWhole =
      k.both(b.lessEqual(low, 0), b.lessEqual(b.i32(kCellRows), high));
  b.createIf(
      isWhole,
      [&] {
        for (auto [column, pointer] : llvm::zip_equal(words, pointers))
          b.store(b.packWords(column), pointer, kChunkBytes);
      },
      [&] {
        Value first = b.maxS(low, 0);
        Value end = b.minS(high, kCellRows);
        b.createIf(b.less(first, end),
                   [&] { storePieces(words, pointers, first, end); });
      });
}

//===----------------------------------------------------------------------===//
// Columns that begin anywhere
//===----------------------------------------------------------------------===//

// A *window* is the aligned 16 bytes in which the cell of a lane begins; the
// cell above completes it. Memory takes much longer for part of a window than
// for all of it, so one that has rows of two tiles is written by the lower one.
// Cells are put below each other in shared memory, as they are in a column of
// the output, and windows are read from there. By shuffles, and choices between
// words, that took a third more instructions, and where tiles are few what
// convert teams have to do is the limit (9001x1536 in 33 groups).

/// Stores the cells of the warp and those above, and returns where the first
/// row of the tile is in each of the lane's columns.
SmallVector<Value> ColumnStores::exchangeColumns(const CellWords &words,
                                                 ArrayRef<Value> above) {
  SmallVector<Value> columns;
  for (size_t i : llvm::seq(words.size()))
    columns.push_back(
        b.offsetBytes(exchange, i * kExchangeColumnBytes + kCellRows));
  // Others may still read those of the tile before.
  b.syncSubgroup();
  Value row = b.mul(position, kCellRows);
  auto half = VectorType::get(2, b.getI32Type());
  for (auto [column, cell] : llvm::zip_equal(columns, words))
    for (int64_t i : {0, 2}) {
      Value place = b.offsetBytes(column, b.add(row, i * kWordBytes));
      b.store(vector::FromElementsOp::create(b, half, {cell[i], cell[i + 1]}),
              place, 2 * kWordBytes);
    }
  Value firstColumn =
      b.mul(b.remU(position, 2), above.size() * kExchangeColumnBytes);
  Value inColumn = b.mul(b.divU(position, 2), kLaneRowsAbove);
  Value place = b.offsetBytes(exchange, b.add(firstColumn, inColumn));
  for (auto [i, word] : llvm::enumerate(above))
    b.store(word, b.offsetBytes(place, i * kExchangeColumnBytes), kWordBytes);
  b.syncSubgroup();
  return columns;
}

/// The lane's window of a column, of five words. Where it ends with the tile,
/// the last one is not needed, and nothing is there.
Value ColumnStores::loadWindow(const Column &column) {
  constexpr int64_t kInWord = kWordBytes - 1;
  Value first = b.sub(b.mul(position, kCellRows), column.shift);
  Value row = b.bitAnd(first, ~kInWord);
  Value place = b.offsetBytes(column.shared, row);
  auto load = [&](Value pointer) -> Value {
    return b.load(b.getI32Type(), pointer, kWordBytes);
  };
  SmallVector<Value> words;
  for (int64_t i = 0; i < kChunkBytes; i += kWordBytes)
    words.push_back(load(b.offsetBytes(place, i)));
  words.push_back(load(b.offsetBytes(
      column.shared, b.minS(b.add(row, kChunkBytes), kLines - kWordBytes))));
  return createFunnelShift(b, words, b.mul(b.bitAnd(first, kInWord), 8));
}

void ColumnStores::storeShifted(const CellWords &words, const StoredRows &rows,
                                const ColumnSeams &seams) {
  SmallVector<Column> columns;
  for (Value pointer : getPointers(rows.pointer, words.size())) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
    Value shift = k.narrow(b.bitAnd(address, kChunkBytes - 1));
    columns.push_back({pointer, Value(), shift});
  }
  for (auto [column, shared] :
       llvm::zip_equal(columns, exchangeColumns(words, seams.above)))
    column.shared = shared;
  b.createIf(
      seams.ownsSeams, [&] { storeWhole(columns, rows.high); },
      [&] { storeCut(columns, rows, seams); });
}

/// Of a tile that has the rows above it and leaves its last ones: which lanes
/// store does not depend on the shift. `high` is before all rows where there is
/// no column.
void ColumnStores::storeWhole(ArrayRef<Column> columns, Value high) {
  Value row = b.mul(position, kCellRows);
  b.createIf(b.lessEqual(b.add(row, kCellRows), high), [&] {
    SmallVector<Value> windows = llvm::map_to_vector(
        columns, [&](const Column &column) { return loadWindow(column); });
    for (auto [window, column] : llvm::zip_equal(windows, columns)) {
      Value cell = b.offsetBytes(column.pointer, k.widen(row));
      Value aligned =
          LLVM::PtrMaskOp::create(b, cell.getType(), cell, b.i64(-kChunkBytes));
      b.store(window, aligned, kChunkBytes);
    }
  });
}

/// Of any tile: whole windows, and what of the first and the last one is to be
/// stored.
void ColumnStores::storeCut(ArrayRef<Column> columns, const StoredRows &rows,
                            const ColumnSeams &seams) {
  Value high = b.minS(rows.high, kLines);
  for (const Column &exchanged : columns) {
    Value shift = exchanged.shift;
    Value begin =
        b.select(seams.hasAbove, b.sub(b.i32(0), shift), b.maxS(rows.low, 0));
    Value end = b.select(seams.leavesLast, b.sub(high, shift), high);
    StoredColumn column{exchanged, begin, end};
    Value row = b.sub(b.mul(position, kCellRows), shift);
    b.createIf(isWhole(column, row), [&] {
      b.store(loadWindow(column), b.offsetBytes(column.pointer, k.widen(row)),
              kChunkBytes);
    });
    storePart(column, begin);
    storePart(column, end);
  }
}

/// The window that has `row`, unless it is stored whole: two bytes by each
/// lane, at once if both are to be stored.
void ColumnStores::storePart(const StoredColumn &column, Value row) {
  Value windowRow =
      b.sub(b.bitAnd(b.clamp(b.add(row, column.shift), 0, kLines), -kCellRows),
            column.shift);
  auto storeIfInside = [&](Value row, Value value, int64_t bytes) {
    Value isInside = k.both(b.lessEqual(column.begin, row),
                            b.lessEqual(b.add(row, bytes), column.end));
    b.createIf(isInside, [&] {
      b.store(b.truncate(b.getIntegerType(8 * bytes), value),
              b.offsetBytes(column.pointer, k.widen(row)), bytes);
    });
    return isInside;
  };
  b.createIf(k.negate(isWhole(column, windowRow)), [&] {
    Value first = b.add(windowRow, b.mul(position, 2));
    auto loadByte = [&](int64_t index) {
      Value inTile = b.minS(b.add(first, index), kLines - 1);
      Value byte =
          b.load(b.getI8Type(), b.offsetBytes(column.shared, inTile), 1);
      return b.zeroExtend(b.getI32Type(), byte);
    };
    Value low = loadByte(0), high = loadByte(1);
    Value areInside =
        storeIfInside(first, b.bitOr(low, b.shiftLeft(high, 8)), 2);
    b.createIf(k.negate(areInside), [&] {
      storeIfInside(first, low, 1);
      storeIfInside(b.add(first, 1), high, 1);
    });
  });
}
