//===- StreamedTiles.h - Tiles of the streamed quantize kernel --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_STREAMEDTILES_H
#define FP8MOE_TUNING_STREAMEDTILES_H

#include <algorithm>
#include <cstdint>

namespace mlir::fp8moe {

/// How a block of the streamed quantize kernel (docs/kernels.md) divides its
/// warps and its shared memory.
struct StreamedTile {
  /// Tiles in the ring. A tile is 128 lines of 128 bytes.
  int64_t stages = 13;
  /// Warps by role; a convert team has four.
  int64_t measureWarps = 4;
  int64_t convertTeams = 2;
  int64_t scaleWarps = 3;

  static constexpr int64_t kTeamWarps = 4;

  int64_t getConvertWarps() const { return convertTeams * kTeamWarps; }
  int64_t getThreads(int64_t warpSize) const {
    constexpr int64_t kProducerWarps = 1;
    return (measureWarps + getConvertWarps() + scaleWarps + kProducerWarps) *
           warpSize;
  }
};

/// The form of a tile in shared memory, and what else lies there.
namespace streamed {
/// A line of a tile and the number of lines: a box of the tensor map has
/// 16, and boxes are a line further apart than they need, so that
/// reading down the columns meets different banks.
inline constexpr int64_t kLineBytes = 128;
inline constexpr int64_t kLines = 128;
inline constexpr int64_t kBoxLines = 16;
inline constexpr int64_t kBoxes = kLines / kBoxLines;
inline constexpr int64_t kBoxBytes = kBoxLines * kLineBytes;
inline constexpr int64_t kBoxPitch = kBoxBytes + kLineBytes;
inline constexpr int64_t kStageBytes = kBoxes * kBoxPitch;
/// Units whose scales a block keeps. A unit is published when its first tile
/// gets a stage, and each convert team may have a tile that waits for its
/// scales without a stage.
inline constexpr int64_t kUnitSlots = 16;
// At the end, a tile for each convert team and a unit for each scale warp say
// that there is no more.
static_assert(StreamedTile().stages + std::max(StreamedTile().convertTeams,
                                               StreamedTile().scaleWarps) <=
              kUnitSlots);
/// Scales of a unit: one for every two bytes of a line.
inline constexpr int64_t kScaleBytes = kLineBytes / 2 * sizeof(float);
/// What warps tell each other about a tile or a unit: eight words.
inline constexpr int64_t kRecordBytes = 32;
/// A barrier in shared memory. A stage has two, a unit three, and one says that
/// all blocks are there.
inline constexpr int64_t kBarrierBytes = 8;

/// Offsets in shared memory. The stages come first, as boxes need alignment.
struct SharedMemory {
  int64_t scales, tileRecords, unitRecords, ring, published, posted,
      scalesReady, gridReady, end;

  constexpr explicit SharedMemory(const StreamedTile &tile)
      : scales(tile.stages * kStageBytes),
        tileRecords(scales + kUnitSlots * kScaleBytes),
        unitRecords(tileRecords + tile.stages * kRecordBytes),
        ring(unitRecords + kUnitSlots * kRecordBytes),
        published(ring + 2 * tile.stages * kBarrierBytes),
        posted(published + kUnitSlots * kBarrierBytes),
        scalesReady(posted + kUnitSlots * kBarrierBytes),
        gridReady(scalesReady + kUnitSlots * kBarrierBytes),
        end(gridReady + kBarrierBytes) {}
};
} // namespace streamed

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_STREAMEDTILES_H
