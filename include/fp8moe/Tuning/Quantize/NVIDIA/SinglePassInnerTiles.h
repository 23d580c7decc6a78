//===- SinglePassInnerTiles.h - Tiles of whole columns ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERTILES_H
#define FP8MOE_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERTILES_H

#include "fp8moe/Target/NVIDIA.h"
#include "llvm/Support/MathExtras.h"

#include <cstdint>
#include <numeric>
#include <optional>

namespace mlir::fp8moe {

/// How a block of the kernel that takes whole columns (docs/design/kernels.md)
/// divides its warps and its shared memory.
struct SinglePassInnerTile {
  /// Warps by role; one more loads bulk tiles, and one makes scales.
  int64_t reduceWarps = 12;
  int64_t convertWarps = 12;
  /// Blocks that share a column.
  int64_t cluster = 1;
  /// Groups that there is room for.
  int64_t groups = 0;

  int64_t getThreads(int64_t warpSize) const {
    return (2 + reduceWarps + convertWarps) * warpSize;
  }
};

namespace single_pass_inner {
/// A bulk tile of a column fills a stage of the ring, or less.
inline constexpr int64_t kBulkTileBytes = 8192;
/// What a lane reads at a time, and a warp.
inline constexpr int64_t kChunkBytes = 16;
inline constexpr int64_t kLineBytes = 32 * kChunkBytes;
/// Masks of the first elements of a chunk: none to all of at most eight.
inline constexpr int64_t kMasks = 9;
/// The largest ring, for few groups.
inline constexpr int64_t kMaxStages = 24;
/// Stages that fill while a block's part of a column waits for its scales.
inline constexpr int64_t kFillingStages = 6;
/// Blocks that a column may be divided among. Clusters of four leave 12 of the
/// 132 multiprocessors of an H200 idle.
inline constexpr int64_t kClusters[] = {1, 2};
/// Parts of a bulk tile whose first group is kept: one for each lane of a warp.
inline constexpr int64_t kLaneSpans = 32;
/// Groups of a kernel that does not know their number.
inline constexpr int64_t kDefaultGroups = 64;

/// Offsets in shared memory; the stages come first.
struct SharedMemory {
  int64_t stages;
  /// Columns whose magnitudes and scales are kept. A block of a cluster may be
  /// ahead of another by as many columns as a ring holds, so there are twice as
  /// many; a column then has many bulk tiles.
  int64_t slots;
  int64_t masks, ring, reduced, scaled, magnitudes, scales, ends, numbers,
      firstGroups, end;

  SharedMemory(const SinglePassInnerTile &tile, int64_t available) {
    // A warp meets a stage in every round or in none: it would take the end of
    // a round for that of the next one if it skipped one.
    int64_t step = std::lcm(tile.reduceWarps, tile.convertWarps);
    for (stages = llvm::alignDown(kMaxStages, step); stages > kFillingStages;
         stages -= step) {
      place(tile);
      if (end <= available)
        return;
    }
    stages = 0;
  }

  /// Bytes of the columns that the blocks of a cluster take at most together,
  /// none where there is no room for a ring.
  std::optional<int64_t> getMaxColumn(const SinglePassInnerTile &tile) const {
    if (!stages)
      return std::nullopt;
    return tile.cluster * (stages - kFillingStages) * kBulkTileBytes;
  }

private:
  void place(const SinglePassInnerTile &tile) {
    slots = tile.cluster == 1 ? stages : 16;
    // The rows behind the last group are one more.
    int64_t table = (tile.groups + 1) * 4;
    masks = stages * kBulkTileBytes;
    ring = masks + kMasks * kChunkBytes;
    reduced = ring + stages * nvidia::kStageBarrierBytes;
    scaled = reduced + slots * nvidia::kMBarrierBytes;
    magnitudes = scaled + slots * nvidia::kMBarrierBytes;
    scales = magnitudes + slots * table;
    ends = scales + slots * table;
    numbers = ends + table;
    firstGroups = numbers + table;
    end = firstGroups + stages * kLaneSpans * 4;
  }
};
} // namespace single_pass_inner

/// The tile for so many groups (kDynamic when only known at run time), for a
/// column that one block can hold.
SinglePassInnerTile getSinglePassInnerTile(int64_t groups);

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERTILES_H
