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

/// Columns of one segment that a block takes.
inline int64_t getWorkTileColumns(RegisterResidentTileAttr tile) {
  return tile.getColumns() * tile.getRounds();
}

/// Strips of columns whose remainder rows make a work tile. Mostly there are no
/// such rows.
constexpr int64_t kRemainderStrips = 16;

/// Work tiles of a quantization, with those of the remainder rows or without.
template <typename T>
T countWorkTiles(RegisterResidentTileAttr tile, const T &segments,
                 const T &columns, bool withRemainder) {
  T strips = ceilDiv(columns, getWorkTileColumns(tile));
  T workTiles = segments * strips;
  return withRemainder ? workTiles + ceilDiv(strips, kRemainderStrips)
                       : workTiles;
}

/// Bytes of shared memory for magnitudes by subgroup; shuffles combine the
/// threads of a smaller team.
inline int64_t getSharedBytes(int64_t team, int64_t threads,
                              int64_t subgroupSize) {
  return team > subgroupSize ? threads / subgroupSize * sizeof(float) : 0;
}

} // namespace mlir::fp8moe::register_resident

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H
