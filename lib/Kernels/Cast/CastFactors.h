//===- CastFactors.h - What elements are multiplied by --------- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_CAST_CASTFACTORS_H
#define FP8MOE_LIB_KERNELS_CAST_CASTFACTORS_H

#include "Kernels/Cast/Cast.h"
#include "Kernels/Emit/SegmentTiles.h"

namespace mlir::fp8moe {

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

#endif // FP8MOE_LIB_KERNELS_CAST_CASTFACTORS_H
