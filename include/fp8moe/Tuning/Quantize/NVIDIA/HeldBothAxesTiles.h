//===- HeldBothAxesTiles.h - What a block holds of both axes ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of the kernel of #fp8moe.held_both_axes, for those who build and
// launch it and for those who choose it.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESTILES_H
#define FP8MOE_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Target/NVIDIA.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>

namespace mlir::fp8moe {

/// How a block of the kernel divides its warps and its shared memory.
struct HeldBothAxesTile {
  /// Lines of a tile: a sector of columns, of which no two blocks should write
  /// a half.
  static constexpr int64_t kLines = 32;
  /// Elements of a line that a thread quantizes.
  static constexpr int64_t kChunk = 16;
  /// Columns and lines that a thread rescales at a time: a word of each line,
  /// a chunk of each column.
  static constexpr int64_t kThreadColumns = 4, kThreadLines = 16;
  /// Threads of roles, which are warpgroups, as registers are given to these.
  /// With 64 that combine magnitudes these are late (1024 columns on an NVIDIA
  /// H100: 219 us, with 128 204 us).
  static constexpr int64_t kMagnitudeThreads = 128, kColumnThreads = 256,
                           kLoadThreads = 128, kLeastLineThreads = 256;
  /// Warps of a team at most: the threads of larger ones would have fewer
  /// registers than they need.
  static constexpr int64_t kMostTeamWarps = 6;
  /// One works while the other one waits.
  static constexpr int64_t kLeastTeams = 2;

  /// Elements of a line.
  int64_t columns = 0;
  /// Lines of the input in shared memory at once, a multiple of the teams.
  int64_t rowStages = 0;
  /// Tiles in FP8 that a block holds.
  int64_t tiles = 0;

  /// Threads that quantize a line together, and how many lines at once.
  constexpr int64_t getTeamThreads() const {
    return llvm::alignTo(llvm::divideCeil(columns, kChunk),
                         nvidia::kWarpThreads);
  }
  constexpr int64_t getTeamWarps() const {
    return getTeamThreads() / nvidia::kWarpThreads;
  }
  constexpr int64_t getTeams() const {
    return getLineThreads() / getTeamThreads();
  }
  /// Threads of whole warpgroups, of which some may have no team.
  constexpr int64_t getLineThreads() const {
    int64_t teams = std::max<int64_t>(
        llvm::divideCeil(kLeastLineThreads, getTeamThreads()), kLeastTeams);
    return llvm::alignTo(teams * getTeamThreads(), nvidia::kWarpgroupThreads);
  }
  constexpr int64_t getThreads() const {
    return getLineThreads() + kMagnitudeThreads + kColumnThreads + kLoadThreads;
  }
};

namespace held_both_axes {
/// Behind each line of a tile, so that lines lie in other banks.
inline constexpr int64_t kLinePadding = 16;
/// Magnitudes of 16 neighbouring columns lie apart, in rows with this padding.
inline constexpr int64_t kMagnitudePadding = 2;
/// Slots for what the warps of a team find in a line: a slow one may still read
/// those of the line before.
inline constexpr int64_t kLineSlots = 2;

/// Offsets in shared memory.
struct SharedMemory {
  int64_t linePitch, magnitudePitch;
  int64_t lines, tiles, magnitudes, lineScales, exponents, partials, lineRing,
      tileRing, linesDone, magnitudesFree, end;

  constexpr explicit SharedMemory(const HeldBothAxesTile &tile)
      : linePitch(tile.columns + kLinePadding),
        magnitudePitch(tile.columns / HeldBothAxesTile::kChunk +
                       kMagnitudePadding),
        lines(0), tiles(lines + tile.rowStages * tile.columns * 2),
        magnitudes(tiles + tile.tiles * HeldBothAxesTile::kLines * linePitch),
        lineScales(magnitudes + HeldBothAxesTile::kChunk * magnitudePitch * 4),
        exponents(lineScales + tile.tiles * HeldBothAxesTile::kLines * 8),
        partials(exponents + tile.tiles * tile.columns),
        lineRing(partials + tile.getTeams() * kLineSlots *
                                HeldBothAxesTile::kMostTeamWarps * 4),
        tileRing(lineRing + tile.rowStages * nvidia::kStageBarrierBytes),
        linesDone(tileRing + tile.tiles * nvidia::kStageBarrierBytes),
        magnitudesFree(linesDone + nvidia::kMBarrierBytes),
        end(magnitudesFree + nvidia::kMBarrierBytes) {}
};

/// Tiles of an expert with so many lines; one without has scales.
template <typename T> T countTiles(const T &lines) {
  return maxOf(ceilDiv(lines, T(HeldBothAxesTile::kLines)), T(1));
}
} // namespace held_both_axes

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESTILES_H
