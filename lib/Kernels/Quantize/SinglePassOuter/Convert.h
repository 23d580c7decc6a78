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

/// Period of the swizzle in lines.
constexpr int64_t kSwizzleLines = 8;

/// Returns the swizzled offset of row `row` of a lane, XOR that of its first
/// row. `row` is less than kSwizzleLines.
int64_t getFlippedBits(int64_t row);

/// Scales of the lines that belong to the previous segment, and an i32 whose
/// bits mark these lines. Null where a tile has no such lines.
struct FixUp {
  Value scales, lines;
};

/// A tile in registers: its record, and the thread's cell.
struct TakenTile {
  TileRecord record;
  /// Input data of the cell, then of the rows above, as loadCell and
  /// loadRowsAbove return it.
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
  /// The first column of the cell in a tile.
  Value getColumnInTile() {
    return b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  }

  SmallVector<Value> loadCell(Value stage);
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
  SmallVector<Value> createEmptyCell();
  TakenTile take(Value stage);
  void convert(const TakenTile &tile);

  SmallVector<Value> loadRowsAbove(Value stage);
  SmallVector<Value> createWordsAbove(ArrayRef<Value> lines, Value scales);
  Value getPointer(Value segment, Value column, Value row);
  /// Returns `high`, or for a column past the last one, an end before all rows.
  Value getEnd(Value column, Value high) {
    return b.select(b.less(column, k.columns), high,
                    b.i32(std::numeric_limits<int32_t>::min() / 2));
  }
  void zeroRemainder(const EndRecord &record);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value team;
  /// The thread's cell in a tile: the 16-byte chunk of a line, the half of the
  /// chunk, and the position down the rows.
  Value chunk, half, position;
  /// Byte offset in a stage of the row that the lane reads first, and in the
  /// box above a tile of the lane's first row there.
  Value firstOffset, firstAboveOffset;
  ColumnStores stores;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_CONVERT_H
