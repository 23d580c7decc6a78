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

/// (X6): blocks of a line of a tile of scales, and its bytes. It has as many
/// lines as a segment tile.
inline constexpr int64_t kScaleTileBlocks = kSegmentTile / kMXBlock;
inline constexpr int64_t kScaleTileBytes = kSegmentTile * kScaleTileBlocks;
/// (X6): rows of 16 bytes hold the blocks of four lines, this far apart.
inline constexpr int64_t kInterleavedLines = 32;

/// The byte of a block of a line in its tile.
Value createOffsetInScaleTile(KernelBuilder &b, Value lineInTile,
                              Value blockInTile);

/// (X7): tiles of scales that have room for each of `groups` to begin one, in
/// an extent of `extent` rows.
Value createGroupScaleTiles(KernelBuilder &b, Value extent, Value groups);

/// (X8): the bits of the bf16, and the f32, that an e8m0 byte (i32) stands for.
Value createBlockScaleBF16Bits(KernelBuilder &b, Value byte);
Value createBlockScale(KernelBuilder &b, Value byte);

/// (X6), (X7): the tile of scales of a segment tile, whose lines are its rows
/// or its columns. Tiles of a segment lie line by line of tiles.
Value createScaleTile(KernelBuilder &b, Value scales, SegmentTiles &tiles,
                      const SegmentTile &tile, bool linesAreRows);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SCALETILES_H
