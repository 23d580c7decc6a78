//===- SinglePassOuterTiles.h - Tiles of a single pass ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H

#include "Kernels/Quantize/QuantizeSizes.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
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
  /// For kernels that also quantize whole rows of the tensor: the bytes of an
  /// input row, and the rows in shared memory at once.
  int64_t rowBytes = 0;
  int64_t rowStages = 0;

  /// Warps by role.
  static constexpr int64_t kReduceWarps = 4;
  static constexpr int64_t kConvertTeams = 2;
  static constexpr int64_t kTeamWarps = 4;
  static constexpr int64_t kConvertWarps = kConvertTeams * kTeamWarps;
  static constexpr int64_t kScaleWarps = 3;
  /// One warpgroup, the unit of register allocation. Eight warps are not
  /// faster: in one run on an NVIDIA H200 both took 111 us for 16640x5120 in 16
  /// groups.
  static constexpr int64_t kRowWarps = 4;

  constexpr bool hasRows() const { return rowBytes != 0; }
  /// Tiles that a convert team holds in registers while they wait for scales,
  /// so that their stages are free. With five warpgroups registers allow one.
  constexpr int64_t getHeldTiles() const { return hasRows() ? 1 : 2; }
  constexpr int64_t getTilesInTeams() const {
    return kConvertTeams * getHeldTiles();
  }
  /// Returns the panels whose scales a block keeps, a power of two. A panel
  /// takes a slot when its first tile gets a stage; tiles that teams hold have
  /// no stage. At the end, one record for each scale warp ends its loop.
  constexpr int64_t getPanelSlots() const {
    int64_t atOnce = stages + getTilesInTeams() + kScaleWarps;
    int64_t slots = 1;
    while (slots < atOnce)
      slots *= 2;
    return slots;
  }

  /// Scale warps follow reduce, convert and row warps. The producer is the last
  /// warp.
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

/// The layout of shared memory.
namespace single_pass_outer {
/// Bytes of a tile's line, lines of a tile, and lines of a box. A tile is one
/// box of a tensor map, or as many boxes of kBoxLines as it has rows for.
inline constexpr int64_t kLineBytes = 128;
inline constexpr int64_t kLines = 128;
inline constexpr int64_t kBoxLines = 16;
/// Bytes of a line that one convert thread processes. Columns of the input must
/// be a multiple of it.
inline constexpr int64_t kCellBytes = 8;
inline constexpr int64_t kBoxes = kLines / kBoxLines;
inline constexpr int64_t kBoxBytes = kBoxLines * kLineBytes;
inline constexpr int64_t kStageBytes = kBoxes * kBoxBytes;
/// For misaligned output columns, lanes of a convert warp exchange parts of
/// columns through shared memory. Each column of the warp takes the rows above
/// the tile and the tile's own. Elements of the input have two bytes each.
inline constexpr int64_t kExchangeColumnBytes = kBoxLines + kLines;
inline constexpr int64_t kExchangeBytes =
    kLineBytes / 2 / SinglePassOuterTile::kTeamWarps * kExchangeColumnBytes;
/// Stages in use then. The memory of the other stages holds a box of the rows
/// above for each stage in use, and the exchanged columns of all convert warps.
inline constexpr int64_t
getStagesWithRowsAbove(const SinglePassOuterTile &tile) {
  return (tile.stages * kStageBytes -
          SinglePassOuterTile::kConvertWarps * kExchangeBytes) /
         (kStageBytes + kBoxBytes);
}
/// Returns a gap in bytes between the exchanged columns of every other eight
/// lanes. With a column pitch of a multiple of four, it turns a 4-way bank
/// conflict into 2-way. (Other even pitches would go from 2-way to 4-way.) A
/// ring of nine stages has no room for it.
inline constexpr int64_t getExchangeGap(const SinglePassOuterTile &tile) {
  constexpr int64_t kTwoBanks = 8;
  int64_t used = getStagesWithRowsAbove(tile) * (kStageBytes + kBoxBytes) +
                 SinglePassOuterTile::kConvertWarps * kExchangeBytes;
  return used + kTwoBanks <= tile.stages * kStageBytes ? kTwoBanks : 0;
}
/// The log2 of the tiles in a span: neighbouring tiles of a panel that one
/// block takes. A block posts once for all of its tiles of a panel, so spans
/// are for panels with few tiles a block. For uniform segments, small inputs
/// thus use half as many blocks as there are tiles: 512 rows of 128 columns
/// take 6% longer.
inline constexpr int64_t kSpanLog = 1;
inline constexpr int64_t kSpanTiles = 1 << kSpanLog;
/// Most tiles of a short panel. In jagged segments, each tile of a short panel
/// is a span. It takes the first number of a whole span and leaves the others
/// unused, so partial slots of all panels are spaced alike and belong to the
/// same blocks. Many of these tiles are partly empty. Blocks that take one at a
/// time share them more evenly: of 9000x1536 in 33 groups a block has at most
/// 17 instead of 20. In long panels the relays of twice as many spans cost more
/// than that gains (32768x2048 in 8 groups up to 3%).
inline constexpr int64_t kShortTiles = 12;
/// Bytes of the scales of a panel, or of a tile's rows of the previous segment:
/// an f32 for every two bytes of a line.
inline constexpr int64_t kScaleBytes = kLineBytes / 2 * sizeof(float);
/// Bytes of a TileRecord or a PanelRecord: eight words.
inline constexpr int64_t kRecordBytes = 32;
/// Events of a panel (PanelEvent), each with an mbarrier.
inline constexpr int64_t kPanelEvents = 3;
/// Bytes from one row in shared memory to the next, a multiple of a line.
inline constexpr int64_t getRowPitch(int64_t rowBytes) {
  return (rowBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}
/// Rows are multiples of so many bytes, the granularity of bulk copies.
inline constexpr int64_t kRowAlignment = 16;
/// Progress of tiles and of rows, two words. For each row stage, the index of
/// the row that it holds.
inline constexpr int64_t kProgressBytes = 8;
inline constexpr int64_t kRowNumberBytes = 4;
/// Most bytes of the input between the progress of tiles and of rows, so that
/// the later read hits the L2 cache.
inline constexpr int64_t kLeadBytes = 4 << 20;

/// Offsets in shared memory. The stages come first, as boxes need alignment.
/// The rows above tiles, and exchanged columns, lie in the last stages, which
/// are then not in use.
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

/// A requirement of a kernel on a size. In the compiler, T is int64_t (or
/// kDynamic): the kernel is no candidate where the demand must fail. On the
/// host, T is OpFoldResult, and the demand is checked before the launch.
template <typename T> struct SizeDemand {
  enum Kind { MultipleOf, MoreThan, LessThan };
  T size;
  Kind kind;
  int64_t number;
};

/// False where the demand is known to fail.
inline bool mayHold(const SizeDemand<int64_t> &demand) {
  using Demand = SizeDemand<int64_t>;
  if (ShapedType::isDynamic(demand.size))
    return true;
  switch (demand.kind) {
  case Demand::MultipleOf:
    return mayBeMultiple(demand.size, demand.number);
  case Demand::MoreThan:
    return demand.size > demand.number;
  case Demand::LessThan:
    return demand.size < demand.number;
  }
  llvm_unreachable("unknown kind of demand");
}

namespace single_pass_outer {
// Expressions that the compiler evaluates for static sizes and the host plan
// for the sizes of a call, written once: T is int64_t, HostSize or
// OpFoldResult.

/// Returns the kernel's demands on sizes. `hasSegmentDim`: segments are a
/// dimension of the input.
template <typename T>
SmallVector<SizeDemand<T>> getSizeDemands(const QuantizeSizes<T> &sizes,
                                          int64_t inputBytes,
                                          bool hasSegmentDim) {
  using Demand = SizeDemand<T>;
  SmallVector<Demand> demands;
  int64_t pitch = nvidia::kTensorMapAddressAlignment / inputBytes;
  demands.push_back({sizes.inReduction, Demand::MultipleOf, pitch});
  if (hasSegmentDim)
    demands.push_back({sizes.inSegment, Demand::MultipleOf, pitch});
  demands.push_back(
      {sizes.parallel, Demand::MultipleOf, kCellBytes / inputBytes});
  // Tensor maps have no empty dimensions.
  for (T count : {sizes.segments, sizes.reduction, sizes.parallel})
    demands.push_back({count, Demand::MoreThan, 0});
  for (T count : {sizes.segments, sizes.reduction, sizes.parallel})
    demands.push_back({count, Demand::LessThan, kMaxCount});
  return demands;
}

/// Returns an upper bound on the tile numbers that all segments take at the
/// columns of one panel. Tiles are numbered as if all spans were whole.
template <typename T>
T countNumbers(const T &rows, const T &segments, bool jagged) {
  auto count = [&](int64_t rowsOfNumber, int64_t moreOfSegment) {
    return ceilDiv(rows, T(rowsOfNumber)) + segments * T(moreOfSegment);
  };
  // A segment begins up to 31 rows into its first tile, so that its panels have
  // at most length / 128 + 1.24 tiles, and less than a span more numbers.
  if (!jagged)
    return count(kLines, 1 + kSpanTiles);
  // A short panel has two numbers for each tile: at most length / 64 + 2.5.
  // That is too many of long segments: those have one for each tile, and short
  // ones as many again.
  return minOf(count(kLines / 2, 3),
               count(kLines, 1 + kSpanTiles + kShortTiles));
}
} // namespace single_pass_outer

/// Returns the tile for quantizing columns and rows of `rowBytes` bytes. None
/// when rows are no multiple of kRowAlignment, or too few fit in shared memory.
std::optional<SinglePassOuterTile>
getBothAxesOuterTile(int64_t rowBytes, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERTILES_H
