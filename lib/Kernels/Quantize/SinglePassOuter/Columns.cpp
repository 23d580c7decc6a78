//===- Columns.cpp - Stores the columns of a tile -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Columns.h"

#include "Kernels/Emit/MemoryAccess.h"

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

/// Returns the pointer of each column, from the first column's.
SmallVector<Value> ColumnStores::getPointers(Value first,
                                             const CellWords &words) {
  SmallVector<Value> pointers{first};
  while (pointers.size() < words.size() / kCellWords)
    pointers.push_back(b.offsetBytes(pointers.back(), k.sizes.outParallel));
  return pointers;
}

/// Returns `bytes` bytes of four words, from byte `index`, a multiple of
/// `bytes`.
static Value createPiece(KernelBuilder &b, ArrayRef<Value> words, Value index,
                         int64_t bytes) {
  Value upper = b.isNonZero(b.bitAnd(index, 8));
  if (bytes == 8)
    return b.packWords({b.select(upper, words[2], words[0]),
                        b.select(upper, words[3], words[1])});
  Value odd = b.isNonZero(b.bitAnd(index, 4));
  Value word = b.select(odd, b.select(upper, words[3], words[1]),
                        b.select(upper, words[2], words[0]));
  if (bytes == kWordBytes)
    return word;
  return b.truncate(b.getIntegerType(8 * bytes),
                    b.shiftRight(word, b.mul(b.bitAnd(index, 3), 8)));
}

/// Stores part of an aligned cell in naturally aligned pieces: of growing size
/// (1 to 4 bytes) up to an aligned address, then of shrinking size (8 to 1).
void ColumnStores::storeCutCell(const CellWords &words,
                                ArrayRef<Value> pointers, Value low,
                                Value high) {
  KernelBuilder::Step step(b, "store_cut_cell");
  Value at = low;
  auto storePiece = [&](int64_t bytes, bool isGrowing) {
    Value fits = b.lessEqual(b.add(at, bytes), high);
    if (isGrowing)
      fits = k.both(fits, b.isNonZero(b.bitAnd(at, bytes)));
    at = b.createIf(
        fits,
        [&] {
          for (auto [column, pointer] : llvm::enumerate(pointers))
            b.store(createPiece(b, getColumnWords(words, column), at, bytes),
                    b.offsetBytes(pointer, b.widenSigned(at)), bytes);
          return b.add(at, bytes);
        },
        [&] { return at; });
  };
  for (int64_t bytes : {1, 2, 4})
    storePiece(bytes, /*isGrowing=*/true);
  for (int64_t bytes : {8, 4, 2, 1})
    storePiece(bytes, /*isGrowing=*/false);
}

void ColumnStores::storeAligned(const CellWords &words,
                                const StoredRows &rows) {
  KernelBuilder::Step step(b, "store_aligned");
  Value firstRow = b.mul(position, kCellRows);
  SmallVector<Value> pointers =
      getPointers(b.offsetBytes(rows.pointer, b.widenSigned(firstRow)), words);
  Value low = b.sub(rows.low, firstRow);
  Value high = b.sub(rows.high, firstRow);
  Value isWhole =
      k.both(b.lessEqual(low, 0), b.lessEqual(b.i32(kCellRows), high));
  b.createIf(
      isWhole,
      [&] {
        for (auto [column, pointer] : llvm::enumerate(pointers))
          b.store(b.packWords(getColumnWords(words, column)), pointer,
                  kChunkBytes);
      },
      [&] {
        Value first = b.maxS(low, 0);
        Value end = b.minS(high, kCellRows);
        b.createIf(b.less(first, end),
                   [&] { storeCutCell(words, pointers, first, end); });
      });
}

//===----------------------------------------------------------------------===//
// Columns that begin anywhere
//===----------------------------------------------------------------------===//

// A *window* is the aligned 16 bytes of the output in which a lane's cell
// begins; the cell above completes it. Stores of part of a window take much
// longer than of all of it, so a window with rows of two tiles is written by
// the lower tile. Cells are stored below each other in shared memory, as in a
// column of the output, and windows are read from there. Shuffles and selects
// of words took a third more instructions. Where tiles are few, the
// instructions of convert teams are the limit (9001x1536 in 33 groups).

/// Returns the shared memory address of the tile's first row in a column of the
/// lane's.
Value ColumnStores::getSharedColumn(Value index) {
  return b.offsetBytes(exchange,
                       b.add(b.mul(index, kExchangeColumnBytes), kCellRows));
}

/// Returns column `index` of the cells of eight lanes below each other. Its
/// first row is at `pointer`.
ColumnStores::Column ColumnStores::getColumn(Value pointer, Value index) {
  Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  return {pointer, getSharedColumn(index),
          b.narrow(b.bitAnd(address, kChunkBytes - 1))};
}

/// Stores the warp's cells, and the rows above, to shared memory.
void ColumnStores::exchangeColumns(const CellWords &words,
                                   ArrayRef<Value> above) {
  KernelBuilder::Step step(b, "exchange_columns");
  // Others may still read those of the tile before.
  b.syncSubgroup();
  Value row = b.mul(position, kCellRows);
  for (size_t i = 0; i < words.size(); i += 2) {
    Value place = b.offsetBytes(getSharedColumn(b.i32(i / kCellWords)),
                                b.add(row, i % kCellWords * kWordBytes));
    b.store(b.packWords({words[i], words[i + 1]}), place, 2 * kWordBytes);
  }
  Value firstColumn =
      b.mul(b.remU(position, 2), above.size() * kExchangeColumnBytes);
  Value inColumn = b.mul(b.divU(position, 2), kLaneRowsAbove);
  Value place = b.offsetBytes(exchange, b.add(firstColumn, inColumn));
  for (auto [i, word] : llvm::enumerate(above))
    b.storeWord(word, b.offsetBytes(place, i * kExchangeColumnBytes));
  b.syncSubgroup();
}

/// Loads the window that begins at row `first` of a column in shared memory,
/// from five words. Words past the tile do not exist and are not needed; others
/// are loaded instead. That is the fifth word where a window ends with the
/// tile, and any word if `mayPassEnd`, which takes a minimum for each.
Value ColumnStores::loadWindow(Value shared, Value first, bool mayPassEnd) {
  KernelBuilder::Step step(b, "load_window");
  constexpr int64_t kInWord = kWordBytes - 1;
  Value row = b.bitAnd(first, ~kInWord);
  Value place = b.offsetBytes(shared, row);
  SmallVector<Value> words;
  for (int64_t i = 0; i <= kChunkBytes; i += kWordBytes) {
    Value pointer =
        mayPassEnd || i == kChunkBytes
            ? b.offsetBytes(shared, b.minS(b.add(row, i), kLines - kWordBytes))
            : b.offsetBytes(place, i);
    words.push_back(b.loadWord(pointer));
  }
  return createFunnelShift(b, words, b.mul(b.bitAnd(first, kInWord), 8));
}

void ColumnStores::storeShifted(const CellWords &words, const StoredRows &rows,
                                const ColumnSeams &seams) {
  exchangeColumns(words, seams.above);
  SmallVector<Column> columns;
  for (auto [index, pointer] :
       llvm::enumerate(getPointers(rows.pointer, words)))
    columns.push_back(getColumn(pointer, b.i32(index)));
  b.createIf(
      k.both(seams.hasAbove, seams.leavesLast),
      [&] { storeWhole(columns, rows.high); },
      [&] {
        storeWholeWindows(columns, rows, seams);
        storePartOfWindow(locateEnd(rows, seams, columns.size()));
      });
}

/// Loads the lane's window of each column.
SmallVector<Value> ColumnStores::loadWindows(ArrayRef<Column> columns) {
  Value row = b.mul(position, kCellRows);
  return llvm::map_to_vector(columns, [&](const Column &column) {
    return loadWindow(column.shared, b.sub(row, column.shift),
                      /*mayPassEnd=*/false);
  });
}

void ColumnStores::storeWindow(const Column &column, Value window) {
  KernelBuilder::Step step(b, "store_window");
  Value row = b.widenSigned(b.mul(position, kCellRows));
  Value cell = b.offsetBytes(column.pointer, row);
  Value aligned =
      LLVM::PtrMaskOp::create(b, cell.getType(), cell, b.i64(-kChunkBytes));
  b.store(window, aligned, kChunkBytes);
}

/// Stores a tile that writes the rows above it and leaves its last rows. The
/// lanes that store do not depend on the shift. `high` is before all rows where
/// there is no column.
void ColumnStores::storeWhole(ArrayRef<Column> columns, Value high) {
  Value end = b.add(b.mul(position, kCellRows), kCellRows);
  b.createIf(b.lessEqual(end, high), [&] {
    for (auto [column, window] : llvm::zip_equal(columns, loadWindows(columns)))
      storeWindow(column, window);
  });
}

/// Stores, for any tile, the windows whose rows are all to be stored.
void ColumnStores::storeWholeWindows(ArrayRef<Column> columns,
                                     const StoredRows &rows,
                                     const ColumnSeams &seams) {
  // The window of a cell has the rows [row - shift, row - shift + 16), which
  // are all to be stored if the shift is from `leastShift` to `mostShift`.
  // Where the tile leaves its last rows, `high` is a multiple of 16, also if
  // the segment ends above them: any shift will do, or none.
  static_assert(kSectorRows % kCellRows == 0);
  Value row = b.mul(position, kCellRows);
  Value leastShift = b.sub(b.add(row, kCellRows), rows.high);
  Value mostShift = b.select(seams.hasAbove, b.i32(kCellRows),
                             b.sub(row, b.maxS(rows.low, 0)));
  // LLVM would move each into its branch, where it would be waited for alone.
  SmallVector<Value> windows = loadWindows(columns);
  for (Value &window : windows)
    window = kernel::OpaqueOp::create(b, window);
  for (auto [column, window] : llvm::zip_equal(columns, windows)) {
    Value isWhole = k.both(b.lessEqual(leastShift, column.shift),
                           b.lessEqual(column.shift, mostShift));
    b.createIf(isWhole, [&, &column = column, window = window] {
      storeWindow(column, window);
    });
  }
}

/// Assigns the first or the last window of one column, which may be stored in
/// part, to each of the eight lanes below each other. Storing two bytes a lane
/// in turns took three times as many instructions.
ColumnStores::ColumnEnd ColumnStores::locateEnd(const StoredRows &rows,
                                                const ColumnSeams &seams,
                                                int64_t numColumns) {
  assert(2 * numColumns <= kCellLanes && "windows that no lane has");
  Value index = b.divU(position, 2);
  Value pointer = b.offsetBytes(
      rows.pointer, b.mul(b.widenSigned(index), k.sizes.outParallel));
  Column column = getColumn(pointer, index);
  Value isLast = b.isNonZero(b.remU(position, 2));
  Value high = b.minS(rows.high, kLines);
  Value begin = b.select(seams.hasAbove, b.sub(b.i32(0), column.shift),
                         b.maxS(rows.low, 0));
  Value end = b.select(seams.leavesLast, b.sub(high, column.shift), high);
  Value hasRows = k.both(b.less(index, b.i32(numColumns)), b.less(begin, end));
  return {column, isLast, hasRows, begin, end};
}

/// Stores the lane's partial window, or both of a column where they are one.
void ColumnStores::storePartOfWindow(const ColumnEnd &column) {
  KernelBuilder::Step step(b, "store_part_of_window");
  auto getInWindow = [&](Value row) {
    return b.bitAnd(b.add(row, column.shift), kCellRows - 1);
  };
  auto getWindowRow = [&](Value row) { return b.sub(row, getInWindow(row)); };
  Value inFirst = getInWindow(column.begin);
  Value isOne = k.both(b.isNonZero(inFirst), b.equal(getWindowRow(column.begin),
                                                     getWindowRow(column.end)));
  Value count = b.select(column.isLast, getInWindow(column.end),
                         b.bitAnd(b.sub(b.i32(0), inFirst), kCellRows - 1));
  b.createIf(k.both(column.hasRows, k.negate(isOne)), [&] {
    Value row = getWindowRow(b.select(column.isLast, column.end, column.begin));
    Value window = loadWindow(column.shared, row, /*mayPassEnd=*/true);
    storePieces(b.unpackWords(window),
                b.offsetBytes(column.pointer, b.widenSigned(row)), count,
                column.isLast);
  });
  // Rare, so byte by byte, by the lane that has the first one.
  b.createIf(
      k.both(k.both(column.hasRows, isOne), k.negate(column.isLast)), [&] {
        b.createFor(column.begin, column.end, b.i32(1), [&](Value row) {
          Value byte =
              b.load(b.getI8Type(), b.offsetBytes(column.shared, row), 1);
          b.store(byte, b.offsetBytes(column.pointer, b.widenSigned(row)), 1);
        });
      });
}

/// Stores the first or the last `count` bytes of a window, fewer than all, in
/// pieces of 8 to 1 bytes.
void ColumnStores::storePieces(ArrayRef<Value> window, Value pointer,
                               Value count, Value areFirst) {
  for (int64_t bytes : {8, 4, 2, 1}) {
    b.createIf(b.isNonZero(b.bitAnd(count, bytes)), [&] {
      // Behind the larger pieces, seen from the end of the window they are at.
      // From the last end, a piece begins at 16 - bytes - larger, which is a
      // XOR, as `larger` has none but these bits.
      Value larger = b.bitAnd(count, kChunkBytes - 2 * bytes);
      Value place =
          b.select(areFirst, larger, b.bitXor(larger, kChunkBytes - bytes));
      b.store(createPiece(b, window, place, bytes),
              b.offsetBytes(pointer, b.widenSigned(place)), bytes);
    });
  }
}
