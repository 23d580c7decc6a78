//===- Columns.h - Stores the columns of a tile -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A *cell* is the 16 rows of a few columns that a thread converts, 16 output
// bytes a column. The cells of eight neighbouring lanes lie below each other.
// They are the 128 rows of a tile.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

namespace mlir::fp8moe::single_pass_outer {

/// A cell is the part of a tile that a thread converts: kCellRows rows of
/// kCellBytes. Eight neighbouring lanes hold cells that lie below each other.
constexpr int64_t kCellRows = 16;
constexpr int64_t kCellLanes = 8;
static_assert(kCellRows * kCellLanes == kLines);
static_assert(kCellLanes == SinglePassOuterKernel::kGroupLanes);
static_assert(kCellRows == kBoxLines, "rows above a tile are a cell");
/// For misaligned output columns: rows above a tile that a lane converts. They
/// make a word of the output, for half of the cell's columns.
constexpr int64_t kLaneRowsAbove = kCellRows / (kCellLanes / 2);
static_assert(kLaneRowsAbove == kWordBytes);

/// The output bytes of a cell: four words for each of its columns, column by
/// column.
using CellWords = SmallVector<Value>;
constexpr size_t kCellWords = kCellRows / kWordBytes;
inline ArrayRef<Value> getColumnWords(const CellWords &words, size_t column) {
  return ArrayRef(words).slice(column * kCellWords, kCellWords);
}

/// The rows [low, high) to store, relative to the tile. They may
/// begin before the tile's rows and end behind them. `pointer` is the address
/// of the tile's first row in the cell's first column.
struct StoredRows {
  Value pointer, low, high;
};

/// Handling of misaligned output columns. An aligned 16-byte word of the output
/// that has rows of two tiles is written by the lower tile.
struct ColumnSeams {
  /// i1: the tile writes rows above it, and leaves its last rows to the tile
  /// below.
  Value hasAbove, leavesLast;
  /// The lane's part of the 16 rows above (undefined without hasAbove), which
  /// eight lanes share. It has a word for each column of half of a cell: the
  /// first half in even lanes, the second in odd ones.
  SmallVector<Value> above;
};

class ColumnStores {
public:
  ColumnStores(SinglePassOuterKernel &kernel, Value warp);

  /// Returns the lane's index among the eight lanes with cells below each
  /// other.
  Value getPosition() const { return position; }

  /// Returns an i1: whether tiles may have to write rows above them.
  Value needRowsAbove() { return k.negate(k.isAligned); }

  /// Stores a tile's cells. All lanes of a warp take part. `createSeams` is
  /// called only in code for misaligned columns.
  void store(const CellWords &words, const StoredRows &rows,
             function_ref<ColumnSeams()> createSeams);

private:
  /// A column of a tile: the addresses of its first row in the output and in
  /// shared memory, and the output address modulo 16.
  struct Column {
    Value pointer, shared, shift;
  };
  /// The first or the last window (16 aligned output bytes) of a column. Its
  /// rows in [begin, end) are stored if `hasRows`.
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
  /// Shared memory through which lanes exchange the lane's columns.
  Value exchange;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_COLUMNS_H
