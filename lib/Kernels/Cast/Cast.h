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

namespace mlir::fp8moe {

/// The layout of the scales, and whether a cast multiplies by them or by their
/// reciprocals.
enum class CastScales {
  /// Multiplies by the f32 scale of column c in segment g, at g * scaleSegment
  /// + c * scaleLine.
  Columns,
  /// Multiplies by the reciprocal of the same scale.
  ColumnReciprocals,
  /// Multiplies by the e8m0 scale of a block (X8): 32 rows of a column, or 32
  /// columns of a row. The scale is byte g * scaleSegment + line * scaleLine +
  /// block.
  RowBlocks,
  ColumnBlocks,
};

/// A conversion of data times scales, from FP8 or to FP8.
///
/// Segments are uniform or jagged, as in an AxisQuantizeProblem. Output rows
/// that belong to no segment are written as zero.
struct ScaledCastProblem {
  /// One is a builtin f8 type that the target converts, the other bf16 or f32.
  /// To FP8, the scales are those of columns.
  Type inputType, outputType;
  CastScales scales = CastScales::Columns;
  /// Whether block scales have the tiled layout of 128x4 bytes, (X6) of
  /// semantics.md. Block scales of jagged segments always have it.
  bool tiledScales = false;
  bool jagged = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t scaleAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  SegmentSizes<int64_t> sizes;

  /// Whether the input is read, or the output written, in chunks of consecutive
  /// rows.
  bool readsRows() const { return sizes.inRow == 1; }
  bool writesRows() const { return sizes.outRow == 1; }
  bool isToFP8() const { return outputType.getIntOrFloatBitWidth() == 8; }
  bool hasBlocks() const {
    return scales == CastScales::RowBlocks ||
           scales == CastScales::ColumnBlocks;
  }
};

/// Returns the number of threads in a block.
int64_t countCastThreads(const ScaledCastProblem &problem);

/// Returns the multiple of rows that tiles of jagged segments begin at. Chunks
/// along rows are thus aligned wherever a segment begins, and only its ends cut
/// chunks. With block scales it is 1: blocks are counted from the segment's
/// first row, and so are their tiles.
int64_t getRowAlignment(const ScaledCastProblem &problem);

/// Builds the kernel of a problem. Its pointer parameters are input, scales,
/// offsets (jagged only) and output. The dynamic sizes follow in the order of
/// `members`.
void buildCast(KernelBuilder &b, const ScaledCastProblem &problem);

/// Reads the scales of a cast.
class CastFactors {
public:
  CastFactors(KernelBuilder &b, const ScaledCastProblem &problem,
              const SegmentSizes<Value> &sizes, Value scalesPointer,
              SegmentTiles &tiles)
      : b(b), problem(problem), sizes(sizes), scalesPointer(scalesPointer),
        tiles(tiles) {}

  /// Loads the factors (f32) of `count` elements from `first` on, along rows or
  /// along columns. `other` is their index in the other dimension. Returns a
  /// single factor where all elements share it.
  SmallVector<Value> load(const SegmentTile &tile, bool alongRows, Value first,
                          Value other, int64_t count);
  /// Whether four neighbouring positions in the other dimension have the same
  /// factors. The first position must be a multiple of four in the tile.
  bool areShared(bool alongRows) const;

  /// Copies the factors of a tile's blocks to shared memory, so that each is
  /// loaded once. All threads of the block take part.
  void fillTable(const SegmentTile &tile);
  /// Loads factors as `load` does, but from the table in shared memory.
  /// Requires a barrier after fillTable. Positions are counted from the tile's
  /// first, and `count` is at least four.
  SmallVector<Value> loadFromTable(bool alongRows, Value first, Value other,
                                   int64_t count);

private:
  SmallVector<Value> loadColumns(const SegmentTile &tile, Value first,
                                 int64_t count);
  /// Loads the e8m0 byte (i32) of a block.
  Value loadBlock(const SegmentTile &tile, Value line, Value element);
  /// Whether consecutive elements in this direction can be of the same block.
  bool areAlongBlocks(bool alongRows) const {
    return alongRows == (problem.scales == CastScales::RowBlocks);
  }
  /// Returns the address of a factor in the table. The factors of one block
  /// index are contiguous, ordered by line.
  Value getInTable(Value line, Value block);

  KernelBuilder &b;
  const ScaledCastProblem &problem;
  const SegmentSizes<Value> &sizes;
  Value scalesPointer;
  SegmentTiles &tiles;
  /// One bf16 a block in shared memory: bf16 has every power of two that e8m0
  /// has.
  Value table;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_CAST_CAST_H
