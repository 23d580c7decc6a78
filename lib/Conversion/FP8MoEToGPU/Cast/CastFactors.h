//===- CastFactors.h - What elements are multiplied by --------- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_CAST_CASTFACTORS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_CAST_CASTFACTORS_H

#include "FP8MoEToGPU/Common/SegmentTiles.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Cast/Cast.h"

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

private:
  SmallVector<Value> loadColumns(const SegmentTile &tile, Value first,
                                 int64_t count);
  Value loadBlock(const SegmentTile &tile, Value line, Value element);

  KernelBuilder &b;
  const ScaledCastProblem &problem;
  const CastSizes<Value> &sizes;
  Value scalesPointer;
  SegmentTiles &tiles;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_CAST_CASTFACTORS_H
