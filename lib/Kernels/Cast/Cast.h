//===- Cast.h - To and from FP8 by given scales ---------------- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_CAST_CAST_H
#define FP8MOE_LIB_KERNELS_CAST_CAST_H

#include "Kernels/Emit/SegmentTiles.h"

#include <array>

namespace mlir::fp8moe {

/// The sizes of a cast and the strides of its buffers, in elements. Element
/// (g, r, c), for a row r of segment g and a column c, lies at
/// g * inSegment + r * inRow + c * inColumn in the input, correspondingly in
/// the output. CastScales says where its scale is.
template <typename T> struct CastSizes {
  T segments;
  /// Rows of every segment, or of all jagged segments together.
  T rows;
  T columns;
  T inSegment, inRow, inColumn;
  T outSegment, outRow, outColumn;
  T scaleSegment, scaleLine;

  static constexpr auto members() {
    using S = CastSizes;
    return std::array{&S::segments,     &S::rows,     &S::columns,
                      &S::inSegment,    &S::inRow,    &S::inColumn,
                      &S::outSegment,   &S::outRow,   &S::outColumn,
                      &S::scaleSegment, &S::scaleLine};
  }
};

/// The factor of an element.
enum class CastScales {
  /// The f32 of its column in its segment, at
  /// g * scaleSegment + c * scaleLine.
  Columns,
  /// The reciprocal of that.
  ColumnReciprocals,
  /// (X8): the e8m0 of 32 rows of its column, or of 32 columns of its row. It
  /// is byte g * scaleSegment + line * scaleLine + block.
  RowBlocks,
  ColumnBlocks,
};

/// Data times scales: from FP8, or to FP8.
///
/// Segments are uniform or jagged, as in an AxisQuantizeProblem. Output rows of
/// no segment are written as zero.
struct ScaledCastProblem {
  /// A builtin f8 type that the target converts from, and bf16 or f32; or the
  /// reverse, for scales of columns.
  Type inputType, outputType;
  CastScales scales = CastScales::Columns;
  /// Whether scales of blocks are in tiles of 128x4, (X6) of semantics.md.
  /// Those of jagged segments always are.
  bool tiledScales = false;
  bool jagged = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t scaleAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  CastSizes<int64_t> sizes;

  /// Whether chunks are taken along rows of the input and of the output.
  bool readsRows() const { return sizes.inRow == 1; }
  bool writesRows() const { return sizes.outRow == 1; }
  bool isToFP8() const { return outputType.getIntOrFloatBitWidth() == 8; }
  bool hasBlocks() const {
    return scales == CastScales::RowBlocks ||
           scales == CastScales::ColumnBlocks;
  }
};

/// The threads of a block.
int64_t countCastThreads(const ScaledCastProblem &problem);

/// Tiles of jagged segments begin at rows that are multiples of this, so that
/// chunks along rows are aligned wherever a segment begins: only those that its
/// ends cut are not whole. Blocks of scales are counted from the first row of
/// the segment, and so are their tiles.
int64_t getRowAlignment(const ScaledCastProblem &problem);

/// The kernel of a problem. Its pointers are input, scales, offsets (jagged
/// only) and output; then come the dynamic sizes in the order of `members`.
void buildCast(KernelBuilder &b, const ScaledCastProblem &problem);

/// Reads the scales of a cast.
class CastFactors {
public:
  CastFactors(KernelBuilder &b, const ScaledCastProblem &problem,
              const CastSizes<Value> &sizes, Value scalesPointer,
              SegmentTiles &tiles)
      : b(b), problem(problem), sizes(sizes), scalesPointer(scalesPointer),
        tiles(tiles) {}

  /// The factors (f32) of the elements from `first` on along rows or along
  /// columns, at one position across: one that all share, or `count` of them.
  SmallVector<Value> load(const SegmentTile &tile, bool alongRows, Value first,
                          Value other, int64_t count);
  /// Whether neighbouring positions across have the same factors: four of them,
  /// of which the first is a multiple of four in the tile.
  bool areShared(bool alongRows) const;

  /// Puts the factors of a tile's blocks into shared memory, which all threads
  /// do together, so that each is read from memory once.
  void fillTable(const SegmentTile &tile);
  /// Like `load`, but from that table, once all threads have filled it.
  /// Positions are counted in the tile; at least four factors.
  SmallVector<Value> loadFromTable(bool alongRows, Value first, Value other,
                                   int64_t count);

private:
  SmallVector<Value> loadColumns(const SegmentTile &tile, Value first,
                                 int64_t count);
  /// The e8m0 byte (i32) of a block.
  Value loadBlock(const SegmentTile &tile, Value line, Value element);
  /// Whether elements along rows or columns can be of the same block.
  bool areAlongBlocks(bool alongRows) const {
    return alongRows == (problem.scales == CastScales::RowBlocks);
  }
  /// Factors of the lines of a block lie behind each other.
  Value getInTable(Value line, Value block);

  KernelBuilder &b;
  const ScaledCastProblem &problem;
  const CastSizes<Value> &sizes;
  Value scalesPointer;
  SegmentTiles &tiles;
  /// A bf16, which can be any power of two that e8m0 has, for each block.
  Value table;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_CAST_CAST_H
