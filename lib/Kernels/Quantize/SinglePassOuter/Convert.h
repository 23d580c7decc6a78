//===- Convert.h - Quantizes tiles in the ring ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_CONVERT_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_CONVERT_H

#include "Kernels/Quantize/SinglePassOuter/Columns.h"

#include <limits>

namespace mlir::fp8moe::single_pass_outer {

/// Rows after which lines are swizzled alike.
constexpr int64_t kSwizzleLines = 8;

/// In what the place of row number `row` of a few, fewer than kSwizzleLines,
/// differs from that of the first one.
int64_t getFlippedBits(int64_t row, int64_t rowsInLine);

/// Where the cell of a thread is in a tile: its first column, of a tile with
/// one row a line and in this one, and the first row of its half of the tile
/// (two-row tiles have two).
struct CellPlace {
  Value virtualColumn, column, secondRows;
};

/// Scales of lines that belong to the segment before, and which of the lines do
/// (bits of an i32); null where a tile has none.
struct FixUp {
  Value scales, lines;
};

/// A tile in registers: what is to be done with it, and the thread's cell.
struct TakenTile {
  TileRecord record;
  /// Lines of the input, as loadCell and loadRowsAbove have them.
  SmallVector<Value> cell;

  /// The members of the record that converting needs.
  static constexpr auto members() {
    using T = TileRecord;
    return std::array{&T::flags, &T::panel,  &T::segment,
                      &T::row,   &T::column, &T::bounds};
  }
  static TakenTile fromValues(ValueRange values) {
    constexpr size_t size = members().size();
    return {fp8moe::fromValues(members(), values.take_front(size)),
            llvm::to_vector_of<Value>(values.drop_front(size))};
  }
  SmallVector<Value> toValues() const {
    SmallVector<Value> values = fp8moe::toValues(record, members());
    llvm::append_range(values, cell);
    return values;
  }
};

class ConvertBuilder {
public:
  ConvertBuilder(SinglePassOuterKernel &kernel, Value warp);

  void build();

private:
  int64_t getCellColumns() const { return kCellBytes / k.getInputBytes(); }
  /// The first column of the cell in a tile with one row a line.
  Value getVirtualColumn() {
    return b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  }

  SmallVector<Value> loadCell(Value stage, Value isTwoRow);
  SmallVector<Value> getValues(ArrayRef<Value> lines);
  Value loadScales(Value scales, Value column, int64_t columns);
  SmallVector<Value> scalePacked(ArrayRef<Value> lines, Value scales,
                                 const FixUp &fixUp = {});
  SmallVector<Value> scaleValues(ArrayRef<Value> lines, Value scales,
                                 const FixUp &fixUp = {});
  Value createLinesBefore(const TileRecord &record, Value firstRow);
  Value createPair(Value low, Value high);
  CellWords createWords(ArrayRef<Value> values);
  CellWords quantize(ArrayRef<Value> cell, const TileRecord &record,
                     Value firstRow);
  Value getLow(const TileRecord &record) {
    return TileRecord::kLow.get(b, record.bounds);
  }
  Value getHigh(const TileRecord &record) {
    return TileRecord::kHigh.get(b, record.bounds);
  }
  Value needsFixUp(const TileRecord &record) {
    return k.haveFixUps() ? tile_flags::kFixUp.isSet(b, record.flags)
                          : b.i1(false);
  }
  CellWords maskPadding(const CellWords &words, Value firstRow, Value high);
  CellPlace locate(const TileRecord &record);
  Value hasAbove(const TileRecord &record, Value secondRows);
  Value leavesLast(const TileRecord &record, Value secondRows);
  Value ownsSeams(const TileRecord &record);
  SmallVector<Value> createEmptyCell();
  TakenTile take(Value stage);
  void convert(const TakenTile &tile);

  SmallVector<Value> loadRowsAbove(Value stage, Value secondRows);
  SmallVector<Value> createWordsAbove(ArrayRef<Value> lines, Value scales);
  Value getPointer(Value segment, Value column, Value row);
  /// `high`, or an end before all rows for a column that is none.
  Value getEnd(Value column, Value high) {
    return b.select(b.less(column, k.columns), high,
                    b.i32(std::numeric_limits<int32_t>::min() / 2));
  }
  void zeroRemainder(const EndRecord &record);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value team;
  /// Which cell of a tile the thread has: the 16-byte chunk of a line, the half
  /// of it, and the position down the rows.
  Value chunk, half, position;
  /// Where the row that the lane reads first is in a stage.
  Value firstOffset, firstTwoRowOffset;
  /// Where the first of its rows above is: in the box above a tile, and in the
  /// upper half of one with two rows a line.
  Value firstAboveOffset, lastOfUpperOffset;
  ColumnStores stores;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_CONVERT_H
