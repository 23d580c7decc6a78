//===- RegisterResidentTiles.h - Tiles held in registers --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe::register_resident {

/// Returns the columns of one segment that a work tile covers.
inline int64_t getWorkTileColumns(RegisterResidentTileAttr tile) {
  return tile.getColumns() * tile.getRounds();
}

/// Strips of columns (of a work tile's width) whose remainder rows make one
/// work tile. Mostly there are no remainder rows.
constexpr int64_t kRemainderStrips = 16;

/// Returns the number of work tiles, including those of the remainder rows or
/// not.
template <typename T>
T countWorkTiles(RegisterResidentTileAttr tile, const T &segments,
                 const T &columns, bool withRemainder) {
  T strips = ceilDiv(columns, getWorkTileColumns(tile));
  T workTiles = segments * strips;
  return withRemainder ? workTiles + ceilDiv(strips, kRemainderStrips)
                       : workTiles;
}

/// Returns the bytes of shared memory for one magnitude a subgroup. Teams
/// within a subgroup use shuffles instead.
inline int64_t getSharedBytes(int64_t team, int64_t threads,
                              int64_t subgroupSize) {
  return team > subgroupSize ? threads / subgroupSize * sizeof(float) : 0;
}

} // namespace mlir::fp8moe::register_resident

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H
