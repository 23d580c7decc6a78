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

/// The window of a column, whose cell above that of the first lane is in lanes
/// of `above`.
SmallVector<Value> ColumnStores::createWindow(ArrayRef<Value> words,
                                              Value above, int64_t column,
                                              Value shift) {
  Value isFirst = b.equal(position, 0);
  Value laneAbove = b.maxS(b.sub(k.lane, 1), 0);
  Value groupLane = b.sub(k.lane, position);
  auto getWordsAbove = [&](int64_t begin, int64_t end) {
    SmallVector<Value> result;
    for (int64_t i : llvm::seq(begin, end)) {
      Value lane = b.add(groupLane, 2 * i + column % 2);
      result.push_back(b.select(isFirst, b.shuffleIndex(above, lane),
                                b.shuffleIndex(words[i], laneAbove)));
    }
    return result;
  };
  auto anyBeyond = [&](int64_t bytes) {
    return b.voteAny(b.less(b.i32(bytes), shift));
  };
  return b.createIf(
      anyBeyond(0), ValueRange(words).getTypes(),
      [&] {
        // Short shifts need the last words above only.
        constexpr int64_t kShort = kChunkBytes / 2;
        constexpr int64_t kWords = kChunkBytes / kWordBytes;
        SmallVector<Value> before = b.createIf(
            anyBeyond(kShort),
            ValueRange(words.take_front(kWords / 2)).getTypes(),
            [&] { return getWordsAbove(0, kWords / 2); },
            [&] { return SmallVector<Value>(kWords / 2, b.i32(0)); });
        before.append(getWordsAbove(kWords / 2, kWords));
        return createShiftedWords(b, before, words, shift);
      },
      [&] { return llvm::to_vector(words); });
}

void ColumnStores::storeShifted(const CellWords &words, const StoredRows &rows,
                                const ColumnSeams &seams) {
  Value isWhole = k.both(seams.hasAbove, seams.leavesLast);
  Value isCut = b.voteAny(k.negate(isWhole));
  Value high = b.minS(rows.high, kLines);
  SmallVector<Value> above = llvm::map_to_vector(
      seams.above, [&](Value pair) { return mergeAbove(pair); });
  for (auto [index, column, pointer] :
       llvm::enumerate(words, getPointers(rows.pointer, words.size()))) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
    Value shift = k.narrow(b.bitAnd(address, kChunkBytes - 1));
    Value begin =
        b.select(seams.hasAbove, b.sub(b.i32(0), shift), b.maxS(rows.low, 0));
    Value end = b.select(seams.leavesLast, b.sub(high, shift), high);
    storeWindows(column, createWindow(column, above[index / 2], index, shift),
                 {pointer, shift, begin, end}, isCut);
  }
}

/// `isCut`: rows may begin or end within a window.
void ColumnStores::storeWindows(ArrayRef<Value> words, ArrayRef<Value> window,
                                const StoredColumn &column, Value isCut) {
  Value row = b.sub(b.mul(position, kCellRows), column.shift);
  b.createIf(isWhole(column, row), [&] {
    b.store(b.packWords(window), b.offsetBytes(column.pointer, k.widen(row)),
            kChunkBytes);
  });
  b.createIf(isCut, [&] {
    // The window of the rows behind those of all lanes.
    SmallVector<Value> last = createShiftedWords(b, words, words, column.shift);
    storeWindow(window, last, column, column.begin);
    storeWindow(window, last, column, column.end);
  });
}

/// The window in which `row` is, which some lane has (or the last one, in
/// `last`), by all of them, unless it is whole: two bytes by each, at once if
/// both are to be stored.
void ColumnStores::storeWindow(ArrayRef<Value> window, ArrayRef<Value> last,
                               const StoredColumn &column, Value row) {
  Value index = b.divU(b.clamp(b.add(row, column.shift), 0, kLines), kCellRows);
  Value isLast = b.equal(index, kCellLanes);
  Value source = b.add(b.sub(k.lane, position), b.minS(index, kCellLanes - 1));
  SmallVector<Value> words;
  for (auto [word, lastWord] : llvm::zip_equal(window, last))
    words.push_back(b.select(isLast, b.shuffleIndex(lastWord, source),
                             b.shuffleIndex(word, source)));
  Value byte = b.mul(position, 2);
  Value pair = createWordAt(b, words, byte);
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
    Value first = b.add(windowRow, byte);
    Value areInside = storeIfInside(first, pair, 2);
    b.createIf(k.negate(areInside), [&] {
      storeIfInside(first, pair, 1);
      storeIfInside(b.add(first, 1), b.shiftRight(pair, 8), 1);
    });
  });
}
