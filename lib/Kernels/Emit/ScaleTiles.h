//===- ScaleTiles.h - Where the bytes of block scales lie ------ *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_SCALETILES_H
#define FP8MOE_LIB_KERNELS_EMIT_SCALETILES_H

#include "Kernels/Emit/SegmentTiles.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"

namespace mlir::fp8moe {

/// The tiled layout of block scales, (X6) of semantics.md: a scale tile holds a
/// byte for 4 blocks of each of 128 lines. Blocks of a line, and bytes, of a
/// scale tile:
inline constexpr int64_t kScaleTileBlocks = kSegmentTile / kMXBlock;
inline constexpr int64_t kScaleTileBytes = kSegmentTile * kScaleTileBlocks;
/// (X6): each 16 bytes of a scale tile hold 4 blocks of four lines. These lines
/// are this far apart.
inline constexpr int64_t kInterleavedLines = 32;

/// Returns the byte offset of a block's scale in its scale tile (X6).
Value createOffsetInScaleTile(KernelBuilder &b, Value lineInTile,
                              Value blockInTile);

/// Returns how many scale tiles leave room for each of `groups` to begin a new
/// one (X7), for `extent` rows in all.
Value createGroupScaleTiles(KernelBuilder &b, Value extent, Value groups);

/// Return the power of two that an e8m0 byte (i32) stands for (X8): as bf16
/// bits, or as f32.
Value createBlockScaleBF16Bits(KernelBuilder &b, Value byte);
Value createBlockScale(KernelBuilder &b, Value byte);

/// Returns the address of the scale tile (X6, X7) of a segment tile. Its lines
/// are the segment tile's rows or columns. Scale tiles of a segment are in
/// row-major order: those of the same lines are contiguous.
Value createScaleTile(KernelBuilder &b, Value scales, SegmentTiles &tiles,
                      const SegmentTile &tile, bool linesAreRows);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SCALETILES_H
