//===- SinglePassOuterTiles.h - Tiles of a single pass ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H

#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "fp8moe/Target/NVIDIA.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mlir::fp8moe {

/// How a block of the single-pass outer quantize kernel
/// (docs/design/kernels.md) divides its warps and its shared memory.
struct SinglePassOuterTile {
  /// Tiles in the ring. A tile is 128 lines of 128 bytes.
  int64_t stages = 13;
  /// Where whole rows of the same tensor are quantized besides: the bytes of a
  /// row of the input, and how many rows are in shared memory at once.
  int64_t rowBytes = 0;
  int64_t rowStages = 0;

  /// Warps by role.
  static constexpr int64_t kReduceWarps = 4;
  static constexpr int64_t kConvertTeams = 2;
  static constexpr int64_t kTeamWarps = 4;
  static constexpr int64_t kConvertWarps = kConvertTeams * kTeamWarps;
  static constexpr int64_t kScaleWarps = 3;
  /// A warpgroup, as registers are given to warpgroups. Eight are not faster:
  /// in one run on an NVIDIA H200 both took 111 us for 16640x5120 in 16 groups.
  static constexpr int64_t kRowWarps = 4;

  constexpr bool hasRows() const { return rowBytes != 0; }
  /// Tiles that a convert team has in registers, where they wait for scales
  /// without a stage. Five warpgroups leave registers for one.
  constexpr int64_t getHeldTiles() const { return hasRows() ? 1 : 2; }
  constexpr int64_t getTilesInTeams() const {
    return kConvertTeams * getHeldTiles();
  }
  /// Panels whose scales a block keeps. A panel is published when its first
  /// tile gets a stage, and what teams hold has none. At the end, a tile for
  /// each convert team and a panel for each scale warp say that there is no
  /// more.
  constexpr int64_t getPanelSlots() const {
    int64_t atOnce =
        stages + getTilesInTeams() + std::max(kConvertTeams, kScaleWarps);
    int64_t slots = 1;
    while (slots < atOnce)
      slots *= 2;
    return slots;
  }

  /// Behind reduce, convert and row warps; the producer's is the last one.
  constexpr int64_t getFirstScaleWarp() const {
    return kReduceWarps + kConvertWarps + (hasRows() ? kRowWarps : 0);
  }
  constexpr int64_t getProducerWarp() const {
    return getFirstScaleWarp() + kScaleWarps;
  }
  int64_t getThreads(int64_t warpSize) const {
    return (getProducerWarp() + 1) * warpSize;
  }
};

/// The form of a tile in shared memory, and what else lies there.
namespace single_pass_outer {
/// A line of a tile and the number of lines. A tile is one box of a tensor map,
/// or as many smaller ones as it has rows for.
inline constexpr int64_t kLineBytes = 128;
inline constexpr int64_t kLines = 128;
inline constexpr int64_t kBoxLines = 16;
/// Bytes of a line that a thread of a convert team has: columns of the input
/// are a multiple of this.
inline constexpr int64_t kCellBytes = 8;
inline constexpr int64_t kBoxes = kLines / kBoxLines;
inline constexpr int64_t kBoxBytes = kBoxLines * kLineBytes;
inline constexpr int64_t kStageBytes = kBoxes * kBoxBytes;
/// Where columns begin anywhere, lanes of a convert warp exchange their parts
/// of columns through shared memory: of every column of the warp the rows above
/// the tile, and its own. The columns have two bytes each in the input.
inline constexpr int64_t kExchangeColumnBytes = kBoxLines + kLines;
inline constexpr int64_t kExchangeBytes =
    kLineBytes / 2 / SinglePassOuterTile::kTeamWarps * kExchangeColumnBytes;
/// How many stages are used then: the memory of the others has a box of the
/// rows above a tile for each of these, and the columns of all convert warps.
inline constexpr int64_t
getStagesWithRowsAbove(const SinglePassOuterTile &tile) {
  return (tile.stages * kStageBytes -
          SinglePassOuterTile::kConvertWarps * kExchangeBytes) /
         (kStageBytes + kBoxBytes);
}
/// Where the pitch of columns is a multiple of four, four lanes of a warp would
/// read from the same bank; with this gap between the columns of every other
/// eight lanes two do. (Other even pitches would go from two to four.) There is
/// no room for it in a ring of nine stages.
inline constexpr int64_t getExchangeGap(const SinglePassOuterTile &tile) {
  constexpr int64_t kTwoBanks = 8;
  int64_t used = getStagesWithRowsAbove(tile) * (kStageBytes + kBoxBytes) +
                 SinglePassOuterTile::kConvertWarps * kExchangeBytes;
  return used + kTwoBanks <= tile.stages * kStageBytes ? kTwoBanks : 0;
}
/// The log2 of the tiles of a panel, one below the other, that a block takes
/// together: a span. A block posts once for all of its tiles of a panel, so
/// spans are for panels that have at most some for each block. Where segments
/// are all alike, small inputs use half as many blocks as there are tiles: 512
/// rows of 128 columns take 6% longer for it.
inline constexpr int64_t kSpanLog = 1;
/// The log2 of the tiles of a longer span, where segments are all alike, a
/// panel is whole such spans and there are many: 5120x8192 gains 0.3 us of 35,
/// where one tile more or less for each block is 2%.
inline constexpr int64_t kLongSpanLog = 2;
inline constexpr int64_t kLongSpanTilesPerBlock = 16;
/// A panel of at most so many tiles is short. Where segments are jagged, each
/// tile of a short panel is a span: it takes the first number of a whole span
/// and leaves the others unused, so that partial slots of all panels are as far
/// apart and belong to the same blocks. Many of these tiles are partly empty,
/// and blocks that take one at a time share them more evenly (of 9000x1536 in
/// 33 groups one has at most 17 instead of 20). In long panels the relays of
/// twice as many spans cost more than that gains (32768x2048 in 8 groups up to
/// 3%).
inline constexpr int64_t kShortTiles = 12;
/// Scales of a panel, or of the rows that a tile has of the segment before: one
/// for every two bytes of a line.
inline constexpr int64_t kScaleBytes = kLineBytes / 2 * sizeof(float);
/// The record about a tile or a panel that warps pass to each other: eight
/// words.
inline constexpr int64_t kRecordBytes = 32;
/// Events of a panel (PanelEvent), each with an mbarrier.
inline constexpr int64_t kPanelEvents = 3;
/// Rows in shared memory begin at multiples of a line.
inline constexpr int64_t getRowPitch(int64_t rowBytes) {
  return (rowBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}
/// Rows are copied in whole pieces of so many bytes.
inline constexpr int64_t kRowAlignment = 16;
/// How far tiles and rows are, two words, and for each stage of rows, which one
/// it is for.
inline constexpr int64_t kProgressBytes = 8;
inline constexpr int64_t kRowNumberBytes = 4;
/// Bytes of the input that rows may be ahead of tiles, or tiles of rows, so
/// that one finds in the L2 cache what the other has read.
inline constexpr int64_t kLeadBytes = 4 << 20;

/// Offsets in shared memory. The stages come first, as boxes need alignment.
/// Rows above tiles and what lanes exchange lie in the last stages, which are
/// not used then.
struct SharedMemory {
  int64_t rowsAbove, exchange, rows, scales, fixUpScales, tileRecords,
      panelRecords, ring, panelEvents, gridReady, rowsReady, rowNumbers,
      progress, end;

  constexpr explicit SharedMemory(const SinglePassOuterTile &tile)
      : rowsAbove(getStagesWithRowsAbove(tile) * kStageBytes),
        exchange(rowsAbove + getStagesWithRowsAbove(tile) * kBoxBytes),
        rows(tile.stages * kStageBytes),
        scales(rows + tile.rowStages * getRowPitch(tile.rowBytes)),
        fixUpScales(scales + tile.getPanelSlots() * kScaleBytes),
        tileRecords(fixUpScales + tile.getPanelSlots() * kScaleBytes),
        panelRecords(tileRecords + tile.stages * kRecordBytes),
        ring(panelRecords + tile.getPanelSlots() * kRecordBytes),
        panelEvents(ring + tile.stages * nvidia::kStageBarrierBytes),
        gridReady(panelEvents +
                  kPanelEvents * tile.getPanelSlots() * nvidia::kMBarrierBytes),
        rowsReady(gridReady + nvidia::kMBarrierBytes),
        rowNumbers(rowsReady + tile.rowStages * nvidia::kMBarrierBytes),
        progress(rowNumbers + tile.rowStages * kRowNumberBytes),
        end(progress + (tile.hasRows() ? kProgressBytes : 0)) {}
};
} // namespace single_pass_outer

/// The division of a block that quantizes rows of so many bytes besides; none
/// when they are not whole pieces of a copy, or too few fit in shared memory.
std::optional<SinglePassOuterTile>
getBothAxesOuterTile(int64_t rowBytes, const TargetInfo &target);

/// Appends the tile of #fp8moe.single_pass_outer, with its cost, where it is
/// legal: see AxisQuantizeFamily::addTiles.
void addSinglePassOuterTiles(const QuantizeWork &known,
                             const QuantizeWork &nominal,
                             const TargetInfo &target,
                             SmallVectorImpl<QuantizeTileCost> &tiles);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H
