//===- ResidentStripTiles.h - Strips that are held in registers -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPTILES_H

#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// Blocks post magnitudes to `slots`, whose words are zero when the kernel
/// begins; null where no strip has more than one piece.
void buildResidentStrips(QuantizeKernel &kernel, ResidentStripsTileAttr tile,
                         Value slots);

} // namespace mlir::fp8moe

/// Constants on which the kernel, its launch and the model must agree. A
/// *piece* is the rows of a strip that a block holds.
namespace mlir::fp8moe::resident_strips {

/// Threads of a block that has so many columns.
constexpr int64_t countThreads(int64_t columns) {
  return columns / two_pass::kTileVector * two_pass::kTileThreads;
}

inline int64_t getHeldRows(ResidentStripsTileAttr tile) {
  return tile.getTiles() * two_pass::kTileRowBytes;
}

/// The pieces of a strip of `rows` rows; one of no rows has a scale, too.
template <typename T>
T countPieces(ResidentStripsTileAttr tile, const T &rows) {
  return maxOf(ceilDiv(rows, T(getHeldRows(tile))), T(1));
}

/// At least as many as all strips at the same columns have pieces. Each jagged
/// segment begins a piece, and so do the rows behind the last one.
template <typename T>
T countAllPieces(ResidentStripsTileAttr tile, bool jagged, const T &segments,
                 const T &rows) {
  return jagged ? rows / T(getHeldRows(tile)) + segments + T(1)
                : segments * countPieces(tile, rows);
}

/// Where pieces of the same columns post their magnitudes.
template <typename T>
T countSlots(ResidentStripsTileAttr tile, bool jagged, const T &segments,
             const T &rows) {
  return jagged ? (rows / T(getHeldRows(tile)) + T(1)) * T(2)
                : segments * countPieces(tile, rows);
}

/// Bytes of a slot: a word for each column.
inline int64_t getSlotBytes(ResidentStripsTileAttr tile) {
  return tile.getColumns() * static_cast<int64_t>(sizeof(int32_t));
}

} // namespace mlir::fp8moe::resident_strips

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPTILES_H
