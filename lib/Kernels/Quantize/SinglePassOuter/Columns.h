//===- Columns.h - Stores the columns of a tile -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A *cell* is 16 rows of the few columns that a thread has, 16 bytes of each;
// the cells of eight lanes below each other are the 128 rows of a tile, or of
// half of one with two rows a line.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

namespace mlir::fp8moe::single_pass_outer {

/// Rows that a thread has of kCellBytes each, and lanes below each other.
constexpr int64_t kCellRows = 16;
constexpr int64_t kCellLanes = 8;
static_assert(kCellRows * kCellLanes == kLines);
static_assert(kCellLanes == SinglePassOuterKernel::kGroupLanes);
static_assert(kCellRows == kBoxLines, "rows above a tile are a cell");
/// Rows that a lane has of those above a tile, where columns begin anywhere: a
/// word of the output, of half of the columns.
constexpr int64_t kLaneRowsAbove = kCellRows / (kCellLanes / 2);
static_assert(kLaneRowsAbove == kWordBytes);

/// The output bytes of a thread: four words for each of its columns, one column
/// after the other.
using CellWords = SmallVector<Value>;
constexpr size_t kCellWords = kCellRows / kWordBytes;
inline ArrayRef<Value> getColumnWords(const CellWords &words, size_t column) {
  return ArrayRef(words).slice(column * kCellWords, kCellWords);
}

/// The rows of a cell's columns that are stored: among the rows of the tile, or
/// of its half, those in [low, high), which may begin before and end behind
/// them. The first row is at `pointer` in the first column.
struct StoredRows {
  Value pointer, low, high;
};

/// Where columns begin anywhere, words of 16 bytes that have rows of two tiles
/// are written by the lower one.
struct ColumnSeams {
  /// i1: the tile has the rows above it to write, and leaves its last ones.
  Value hasAbove, leavesLast;
  /// i1: both, also of the other half of a tile with two rows a line, so that
  /// the whole warp knows.
  Value ownsSeams;
  /// The lane's share of the 16 rows above, which eight lanes have together
  /// (where the tile has none to write, anything): a word for each column of
  /// half of a cell, the first half in even lanes, the second in odd ones.
  SmallVector<Value> above;
};

class ColumnStores {
public:
  ColumnStores(SinglePassOuterKernel &kernel, Value warp);

  /// Which of the lanes below each other this one is.
  Value getPosition() const { return position; }

  /// i1: tiles write rows above them.
  Value needRowsAbove() { return k.negate(k.isAligned); }

  /// By all lanes of a warp. `createSeams` is called where it is needed.
  void store(const CellWords &words, const StoredRows &rows,
             function_ref<ColumnSeams()> createSeams);

private:
  /// A column of a tile: its first row in the output and in shared memory, and
  /// how many bytes that is behind an aligned address of the output.
  struct Column {
    Value pointer, shared, shift;
  };
  /// The first or the last window of one, of which the rows in [begin, end) are
  /// stored if it has any.
  struct ColumnEnd : Column {
    Value isLast, hasRows, begin, end;
  };

  SmallVector<Value> getPointers(Value first, const CellWords &words);
  void storeAligned(const CellWords &words, const StoredRows &rows);
  void storeCutCell(const CellWords &words, ArrayRef<Value> pointers, Value low,
                    Value high);
  void storeShifted(const CellWords &words, const StoredRows &rows,
                    const ColumnSeams &seams);
  Value getSharedColumn(Value index);
  Column getColumn(Value pointer, Value index);
  void exchangeColumns(const CellWords &words, ArrayRef<Value> above);
  Value loadWindow(Value shared, Value first, bool mayPassEnd);
  SmallVector<Value> loadWindows(ArrayRef<Column> columns);
  void storeWindow(const Column &column, Value window);
  void storeWhole(ArrayRef<Column> columns, Value high);
  void storeWholeWindows(ArrayRef<Column> columns, const StoredRows &rows,
                         const ColumnSeams &seams);
  ColumnEnd locateEnd(const StoredRows &rows, const ColumnSeams &seams,
                      int64_t numColumns);
  void storePartOfWindow(const ColumnEnd &column);
  void storePieces(ArrayRef<Value> window, Value pointer, Value count,
                   Value areFirst);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value position;
  /// Where the lane's columns are exchanged.
  Value exchange;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H
