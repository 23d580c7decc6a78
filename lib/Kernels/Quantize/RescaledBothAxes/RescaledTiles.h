//===- RescaledTiles.h - Columns from quantized rows ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The sizes of the kernels of #fp8moe.rescaled_both_axes, for those who build
// and launch them and for the model.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe::rescaled {

/// Lines and columns of a tile that is moved to the scales of its columns, the
/// threads of a block that does so, and the blocks for which a multiprocessor
/// has registers.
inline constexpr int64_t kTile = 128;
inline constexpr int64_t kColumnThreads = 256;
inline constexpr int64_t kColumnBlocks = 4;
/// Tiles begin at multiples of so many lines: a sector of columns, of which no
/// two blocks should write a half.
inline constexpr int64_t kLineAlignment = 32;
/// Lines of a block that quantizes them at least: it sends the magnitudes of
/// all columns to memory.
inline constexpr int64_t kLeastLines = 16;

/// Lines that a block quantizes, where there are `lines` and the card holds
/// `blocks` of its kind.
template <typename T> T countLinesPerTile(const T &lines, const T &blocks) {
  return maxOf(ceilDiv(lines, blocks), T(kLeastLines));
}

/// At least as many tiles as the lines of all segments have at the same
/// columns. Each segment begins a tile, even where it is empty, as its columns
/// have scales; so do the lines behind jagged ones, of which the last tile
/// takes what is left.
template <typename T>
T countLineTiles(bool jagged, const T &segments, const T &lines) {
  if (!jagged)
    return segments * maxOf(ceilDiv(lines, T(kTile)), T(1));
  T most = lines + segments * T(kTile - 1 + kLineAlignment - 1);
  return ceilDiv(most, T(kTile)) + T(1);
}

} // namespace mlir::fp8moe::rescaled

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDTILES_H
