//===- Columns.cpp - Stores the columns of a tile -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Columns.h"

#include "FP8MoEToGPU/Common/MemoryAccess.h"
#include "FP8MoEToGPU/NVIDIA/Opaque.h"

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

/// The window that begins at row `first` of a column, of five words. The last
/// one is not needed where the window ends with the tile, and others are not
/// where it passes that end; nothing is there.
Value ColumnStores::loadWindow(Value column, Value first, bool mayPassEnd) {
  constexpr int64_t kInWord = kWordBytes - 1;
  Value row = b.bitAnd(first, ~kInWord);
  Value place = b.offsetBytes(column, row);
  SmallVector<Value> words;
  for (int64_t i = 0; i <= kChunkBytes; i += kWordBytes) {
    Value pointer =
        mayPassEnd || i == kChunkBytes
            ? b.offsetBytes(column, b.minS(b.add(row, i), kLines - kWordBytes))
            : b.offsetBytes(place, i);
    words.push_back(b.load(b.getI32Type(), pointer, kWordBytes));
  }
  return createFunnelShift(b, words, b.mul(b.bitAnd(first, kInWord), 8));
}

void ColumnStores::storeShifted(const CellWords &words, const StoredRows &rows,
                                const ColumnSeams &seams) {
  SmallVector<Column> columns;
  for (Value pointer : getPointers(rows.pointer, words.size()))
    columns.push_back({pointer, Value(), getShift(pointer)});
  for (auto [column, shared] :
       llvm::zip_equal(columns, exchangeColumns(words, seams.above)))
    column.shared = shared;
  b.createIf(
      seams.ownsSeams, [&] { storeWhole(columns, rows.high); },
      [&] {
        storeWindows(columns, rows, seams);
        storeEnds(rows, seams, columns.size());
      });
}

/// How many bytes a pointer is behind an aligned address.
Value ColumnStores::getShift(Value pointer) {
  Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  return k.narrow(b.bitAnd(address, kChunkBytes - 1));
}

/// The lane's window of each column.
SmallVector<Value> ColumnStores::loadWindows(ArrayRef<Column> columns) {
  Value row = b.mul(position, kCellRows);
  return llvm::map_to_vector(columns, [&](const Column &column) {
    return loadWindow(column.shared, b.sub(row, column.shift));
  });
}

void ColumnStores::storeWindow(const Column &column, Value window) {
  Value row = k.widen(b.mul(position, kCellRows));
  Value cell = b.offsetBytes(column.pointer, row);
  Value aligned =
      LLVM::PtrMaskOp::create(b, cell.getType(), cell, b.i64(-kChunkBytes));
  b.store(window, aligned, kChunkBytes);
}

/// Of a tile that has the rows above it and leaves its last ones: which lanes
/// store does not depend on the shift. `high` is before all rows where there is
/// no column.
void ColumnStores::storeWhole(ArrayRef<Column> columns, Value high) {
  Value end = b.add(b.mul(position, kCellRows), kCellRows);
  b.createIf(b.lessEqual(end, high), [&] {
    for (auto [column, window] : llvm::zip_equal(columns, loadWindows(columns)))
      storeWindow(column, window);
  });
}

/// Of any tile: the windows all rows of which are to be stored.
void ColumnStores::storeWindows(ArrayRef<Column> columns,
                                const StoredRows &rows,
                                const ColumnSeams &seams) {
  Value row = b.mul(position, kCellRows);
  // Windows begin `shift` above cells. A tile that leaves its last rows has all
  // of them, so that `high` is behind the cell of each window before.
  Value least = b.sub(b.add(row, kCellRows), rows.high);
  Value most = b.select(seams.hasAbove, b.i32(kCellRows),
                        b.sub(row, b.maxS(rows.low, 0)));
  // All are loaded at once, not each where it is known to be stored.
  SmallVector<Value> windows = loadWindows(columns);
  for (Value &window : windows)
    window = createOpaque(b, window);
  for (auto [column, window] : llvm::zip_equal(columns, windows)) {
    Value isWhole = k.both(b.lessEqual(least, column.shift),
                           b.lessEqual(column.shift, most));
    b.createIf(isWhole, [&, &column = column, window = window] {
      storeWindow(column, window);
    });
  }
}

/// What is to be stored of the first and the last window of each column, where
/// that is not all: each of the lanes below each other has one end of one of
/// their columns. In turns, two bytes a lane, it took three times as many
/// instructions.
void ColumnStores::storeEnds(const StoredRows &rows, const ColumnSeams &seams,
                             int64_t numColumns) {
  assert(2 * numColumns <= kCellLanes && "ends that no lane has");
  Value column = b.divU(position, 2);
  Value isEnd = k.isNonZero(b.remU(position, 2));
  Value pointer =
      b.offsetBytes(rows.pointer, b.mul(k.widen(column), k.sizes.outParallel));
  Value shared = b.offsetBytes(
      exchange, b.add(b.mul(column, kExchangeColumnBytes), kCellRows));
  Value shift = getShift(pointer);
  Value high = b.minS(rows.high, kLines);
  Value begin =
      b.select(seams.hasAbove, b.sub(b.i32(0), shift), b.maxS(rows.low, 0));
  Value end = b.select(seams.leavesLast, b.sub(high, shift), high);

  auto getInWindow = [&](Value row) {
    return b.bitAnd(b.add(row, shift), kCellRows - 1);
  };
  auto getWindow = [&](Value row) { return b.sub(row, getInWindow(row)); };
  Value inFirst = getInWindow(begin);
  Value hasRows = k.both(b.less(column, b.i32(numColumns)), b.less(begin, end));
  Value isInOne =
      k.both(k.isNonZero(inFirst), b.equal(getWindow(begin), getWindow(end)));
  Value count = b.select(isEnd, getInWindow(end),
                         b.bitAnd(b.sub(b.i32(0), inFirst), kCellRows - 1));
  b.createIf(k.both(hasRows, k.negate(isInOne)), [&] {
    Value first = getWindow(b.select(isEnd, end, begin));
    Value window = loadWindow(shared, first, /*mayPassEnd=*/true);
    storeEnd(b.unpackWords(window), b.offsetBytes(pointer, k.widen(first)),
             count, isEnd);
  });
  // Both ends in one window are rare.
  b.createIf(k.both(k.both(hasRows, isInOne), k.negate(isEnd)), [&] {
    b.createFor(begin, end, b.i32(1), [&](Value row) {
      Value byte = b.load(b.getI8Type(), b.offsetBytes(shared, row), 1);
      b.store(byte, b.offsetBytes(pointer, k.widen(row)), 1);
    });
  });
}

/// `count` bytes of a window, fewer than all, in pieces of 8 to 1: the first
/// ones of one in which a column ends, the last ones of one in which it begins.
void ColumnStores::storeEnd(ArrayRef<Value> window, Value pointer, Value count,
                            Value isEnd) {
  for (int64_t bytes : {8, 4, 2, 1}) {
    b.createIf(k.isNonZero(b.bitAnd(count, bytes)), [&] {
      // Larger pieces lie before it, or behind it.
      Value before = b.bitAnd(count, kChunkBytes - 2 * bytes);
      Value place =
          b.select(isEnd, before, b.bitXor(before, kChunkBytes - bytes));
      Value address = b.offsetBytes(pointer, k.widen(place));
      if (bytes == 8) {
        b.store(b.packWords({b.select(isEnd, window[0], window[2]),
                             b.select(isEnd, window[1], window[3])}),
                address, bytes);
        return;
      }
      Value word = createWordAt(b, window, place);
      b.store(b.truncate(b.getIntegerType(8 * bytes), word), address, bytes);
    });
  }
}
