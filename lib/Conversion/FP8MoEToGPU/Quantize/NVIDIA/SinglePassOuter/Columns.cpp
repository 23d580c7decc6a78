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

/// Columns that are shifted at once, with one branch for all of them, so that
/// shuffles of one overlap with those of another. All four of a cell of bf16
/// would be 1% to 4% faster, but spill with divisors or beside rows.
static constexpr size_t kColumnsAtOnce = 2;
static_assert(kColumnsAtOnce % 2 == 0, "rows above have words for pairs");

ColumnStores::ColumnStores(SinglePassOuterKernel &kernel)
    : k(kernel), b(kernel.b) {
  position = b.remU(k.lane, kCellLanes);
  isAligned = k.createIsAligned();
  // Columns begin at multiples of the lowest bit of all of these.
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), k.output);
  for (Value stride : {k.sizes.outParallel, k.sizes.outSegment})
    bits = b.bitOr(bits, stride);
  Value word = b.bitOr(k.narrow(bits), kChunkBytes);
  Value alignment = b.bitAnd(word, b.sub(b.i32(0), word));
  Value lastRow = b.add(b.mul(position, kLaneRowsAbove), kLaneRowsAbove - 1);
  laneNeedsAbove = k.both(k.negate(isAligned), b.lessEqual(alignment, lastRow));
}

void ColumnStores::store(const CellWords &words, const StoredRows &rows,
                         function_ref<ColumnSeams()> createSeams) {
  b.createIf(
      isAligned, [&] { storeAligned(words, rows); },
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
// for all of it, so one that has rows of two tiles is written by the lower one,
// which reads the last rows above from the input once more.

/// Of a pair of columns, an even lane gets four rows of the first one, its own
/// and its neighbour's, and an odd lane those of the second one.
Value ColumnStores::mergeAbove(Value pair) {
  constexpr int64_t kFirstHalves = 0x5410, kSecondHalves = 0x3276;
  Value selector = b.select(k.isNonZero(b.bitAnd(position, 1)),
                            b.i32(kSecondHalves), kFirstHalves);
  return b.permuteBytes(pair, b.shuffleXor(pair, 1), selector);
}

/// The windows of columns, of which the first has an even number. The cells
/// above those of the first lanes are in lanes of `above`, a word for each
/// pair.
CellWords ColumnStores::createWindows(ArrayRef<SmallVector<Value>> words,
                                      ArrayRef<Value> above,
                                      ArrayRef<StoredColumn> columns) {
  Value isFirst = b.equal(position, 0);
  Value laneAbove = b.maxS(b.sub(k.lane, 1), 0);
  Value groupLane = b.sub(k.lane, position);
  auto getWordsAbove = [&](int64_t begin, int64_t end) {
    SmallVector<Value> result;
    for (auto [column, own] : llvm::enumerate(words))
      for (int64_t word : llvm::seq(begin, end)) {
        Value lane = b.add(groupLane, 2 * word + column % 2);
        result.push_back(b.select(isFirst,
                                  b.shuffleIndex(above[column / 2], lane),
                                  b.shuffleIndex(own[word], laneAbove)));
      }
    return result;
  };
  // Short shifts need the last words above only.
  constexpr int64_t kShort = kChunkBytes / 2;
  constexpr int64_t kWords = kChunkBytes / kWordBytes, kHalf = kWords / 2;
  Value areLong = b.i1(false);
  for (const StoredColumn &column : columns)
    areLong = b.bitOr(areLong, b.less(b.i32(kShort), column.shift));
  SmallVector<Type> types(columns.size() * kHalf, b.getI32Type());
  SmallVector<Value> firstWords = b.createIf(
      b.voteAny(areLong), types, [&] { return getWordsAbove(0, kHalf); },
      [&] { return SmallVector<Value>(types.size(), b.i32(0)); });
  SmallVector<Value> lastWords = getWordsAbove(kHalf, kWords);
  CellWords windows;
  for (auto [i, column] : llvm::enumerate(columns)) {
    auto before = llvm::to_vector(ArrayRef(firstWords).slice(i * kHalf, kHalf));
    llvm::append_range(before, ArrayRef(lastWords).slice(i * kHalf, kHalf));
    windows.push_back(createShiftedWords(b, before, words[i], column.shift));
  }
  return windows;
}

void ColumnStores::storeShifted(const CellWords &words, const StoredRows &rows,
                                const ColumnSeams &seams) {
  Value high = b.minS(rows.high, kLines);
  Value isFirstCut = b.voteAny(k.negate(seams.hasAbove));
  Value isLastCut = b.voteAny(k.negate(seams.leavesLast));
  SmallVector<Value> above = llvm::map_to_vector(
      seams.above, [&](Value pair) { return mergeAbove(pair); });
  SmallVector<StoredColumn> columns;
  for (Value pointer : getPointers(rows.pointer, words.size())) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
    Value shift = k.narrow(b.bitAnd(address, kChunkBytes - 1));
    Value begin =
        b.select(seams.hasAbove, b.sub(b.i32(0), shift), b.maxS(rows.low, 0));
    Value end = b.select(seams.leavesLast, b.sub(high, shift), high);
    columns.push_back({pointer, shift, begin, end});
  }
  for (size_t first = 0; first < words.size(); first += kColumnsAtOnce) {
    ArrayRef own = ArrayRef(words).slice(first, kColumnsAtOnce);
    ArrayRef stored = ArrayRef(columns).slice(first, kColumnsAtOnce);
    CellWords windows = createWindows(
        own, ArrayRef(above).slice(first / 2, kColumnsAtOnce / 2), stored);
    storeWindows(windows, stored);
    b.createIf(isFirstCut, [&] {
      for (auto [window, column] : llvm::zip_equal(windows, stored))
        storeFirst(window, column);
    });
    b.createIf(isLastCut, [&] {
      for (auto [window, cell, column] : llvm::zip_equal(windows, own, stored))
        storeLast(window, cell, column);
    });
  }
}

/// The windows that are stored whole.
void ColumnStores::storeWindows(const CellWords &windows,
                                ArrayRef<StoredColumn> columns) {
  for (auto [window, column] : llvm::zip_equal(windows, columns)) {
    Value row = b.sub(b.mul(position, kCellRows), column.shift);
    b.createIf(isWhole(column, row), [&, &window = window, &column = column] {
      b.store(b.packWords(window), b.offsetBytes(column.pointer, k.widen(row)),
              kChunkBytes);
    });
  }
}

/// The window of the first row to store, unless it is whole. Tiles of data
/// begin before row kSectorRows, so that a lane has it. One of zeros may begin
/// later, in the window behind those of all lanes; it leaves no rows to a tile
/// below, so that storeLast writes that window.
void ColumnStores::storeFirst(ArrayRef<Value> window,
                              const StoredColumn &column) {
  Value index = b.divU(
      b.clamp(b.add(column.begin, column.shift), 0, kLines - 1), kCellRows);
  Value source = b.add(b.sub(k.lane, position), index);
  SmallVector<Value> words = llvm::map_to_vector(
      window, [&](Value word) { return b.shuffleIndex(word, source); });
  storeCut(words, column, index);
}

/// The window in which the rows to store end, unless it is whole or they end
/// where it begins. Behind those of all lanes is one more, with the rest of the
/// last lane's `own` words.
void ColumnStores::storeLast(ArrayRef<Value> window, ArrayRef<Value> own,
                             const StoredColumn &column) {
  Value index =
      b.divU(b.clamp(b.add(column.end, column.shift), 0, kLines), kCellRows);
  Value isBehind = b.equal(index, kCellLanes);
  Value source = b.add(b.sub(k.lane, position), b.minS(index, kCellLanes - 1));
  SmallVector<Value> words;
  for (auto [word, last] :
       llvm::zip_equal(window, createShiftedWords(b, own, own, column.shift)))
    words.push_back(b.shuffleIndex(b.select(isBehind, last, word), source));
  storeCut(words, column, index);
}

/// Window number `index` of a column, which all lanes have, unless it is stored
/// whole: two bytes by each, at once if both are to be stored.
void ColumnStores::storeCut(ArrayRef<Value> words, const StoredColumn &column,
                            Value index) {
  Value byte = b.mul(position, 2);
  Value windowRow = b.sub(b.mul(index, kCellRows), column.shift);
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
    Value pair = createWordAt(b, words, byte);
    Value first = b.add(windowRow, byte);
    Value areInside = storeIfInside(first, pair, 2);
    b.createIf(k.negate(areInside), [&] {
      storeIfInside(first, pair, 1);
      storeIfInside(b.add(first, 1), b.shiftRight(pair, 8), 1);
    });
  });
}
