//===- RescaledTiles.h - Columns from quantized rows ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The tile sizes of the kernels of #fp8moe.rescaled_both_axes, which the
// kernels, their launches and the cost model share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe::rescaled {

/// Lines and columns of a tile of the kernel that rescales lines to the scales
/// of columns. Threads of its blocks, and resident blocks that a multiprocessor
/// has registers for.
inline constexpr int64_t kTile = 128;
inline constexpr int64_t kColumnThreads = 256;
inline constexpr int64_t kColumnBlocks = 4;
/// Alignment of tiles in lines: the bytes of a sector of a column. No two
/// blocks should write parts of one sector.
inline constexpr int64_t kLineAlignment = 32;
/// Least lines of a block that quantizes lines: each block combines the amax of
/// all columns in memory.
inline constexpr int64_t kLeastLines = 16;

/// Returns the lines per block, for `lines` in all and `blocks` resident blocks
/// on the GPU.
template <typename T> T countLinesPerTile(const T &lines, const T &blocks) {
  return maxOf(ceilDiv(lines, blocks), T(kLeastLines));
}

/// Returns an upper bound on the line tiles of all segments, at one strip of
/// columns. Each segment begins a tile, even an empty one, as its columns have
/// scales. So do the remainder rows, of which the last tile takes what is left.
template <typename T>
T countLineTiles(bool jagged, const T &segments, const T &lines) {
  if (!jagged)
    return segments * maxOf(ceilDiv(lines, T(kTile)), T(1));
  T most = lines + segments * T(kTile - 1 + kLineAlignment - 1);
  return ceilDiv(most, T(kTile)) + T(1);
}

} // namespace mlir::fp8moe::rescaled

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H
