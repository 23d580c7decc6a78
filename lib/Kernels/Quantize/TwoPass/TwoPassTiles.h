//===- TwoPassTiles.h - Tiles that read twice -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {
class QuantizeKernel;

/// Builds the kernel of every kind but Inner.
void buildTwoPassOuter(QuantizeKernel &kernel, TwoPassTileAttr tile,
                       QuantizeKind kind);

} // namespace mlir::fp8moe

namespace mlir::fp8moe::two_pass {

/// In a transposing kernel: consecutive input elements of one thread (columns,
/// or rows for Inner kinds), and elements of the other dimension packed into a
/// word.
inline constexpr int64_t kTileVector = 8;
inline constexpr int64_t kTilePack = 4;
/// Bytes of a row of a transposed tile in shared memory.
inline constexpr int64_t kTileRowBytes = 128;
/// Threads side by side on a row of a transposed tile, and buffers for tiles.
inline constexpr int64_t kTileThreads = kTileRowBytes / kTilePack;
inline constexpr int64_t kTileBuffers = 2;

/// Bytes of the parts of shared memory, 0 for parts that a kind does not need.
struct SharedMemory {
  /// Scales, one for each column of the strip. Magnitudes, one for each
  /// subgroup and column.
  int64_t scales = 0, magnitudes = 0;
  int64_t transposedTiles = 0;

  SharedMemory(QuantizeKind kind, int64_t columns, int64_t threads,
               int64_t subgroupSize) {
    if (kind == QuantizeKind::Inner)
      return;
    scales = columns * sizeof(float);
    if (kind != QuantizeKind::InnerTransposing)
      magnitudes = threads / subgroupSize * scales;
    if (kind != QuantizeKind::Outer)
      transposedTiles =
          kTileBuffers * kTileVector * (threads / kTileThreads) * kTileRowBytes;
  }

  int64_t getTotal() const { return scales + magnitudes + transposedTiles; }
};

/// Returns the number of work tiles, including those of the remainder rows or
/// not. Predictions exclude them: mostly there are no remainder rows, and they
/// have no scales.
template <typename T>
T countWorkTiles(TwoPassTileAttr tile, QuantizeKind kind, const T &segments,
                 const T &columns, bool withRemainder) {
  T all = withRemainder ? segments + 1 : segments;
  // Slices of several segments share a block.
  if (kind == QuantizeKind::Inner)
    return ceilDiv(all * columns, tile.getColumns());
  return all * ceilDiv(columns, tile.getColumns());
}

} // namespace mlir::fp8moe::two_pass

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSTILES_H
