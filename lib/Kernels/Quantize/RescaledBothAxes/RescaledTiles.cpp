//===- RescaledTiles.cpp - Columns from quantized rows --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The cost model of two kernels for both axes. The second kernel reads the FP8
// lines that the first one wrote, not the input:
//
//   traffic  the input and its lines in FP8, which are read again, and columns;
//            magnitudes of all columns from every block
//   latency  the lines of a block, one after the other
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledTiles.h"

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/RescaledBothAxes/RescaledCalibration.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Most threads of a block that quantizes lines. Larger blocks wait longer at
/// the barriers of each line.
static constexpr int64_t kMostThreads = 512;
/// Most chunks of a line that a thread holds while it loads as many of the
/// next.
static constexpr int64_t kMostChunks = 2;
/// Resident threads of a multiprocessor, which have registers for one chunk of
/// 16-bit elements each.
static constexpr int64_t kResidentThreads = 1024;
/// Most blocks of a multiprocessor, as each combines the magnitudes of all
/// columns in memory.
static constexpr int64_t kMostBlocks = 8;
/// Launches: one clears magnitudes, one quantizes lines, one computes columns
/// from them.
static constexpr int64_t kLaunches = 3;

namespace {
class RescaledBothAxesFamily : public BothAxesFamily {
public:
  RescaledBothAxesFamily() : BothAxesFamily("rescaled_both_axes") {}

  std::optional<QuantizeTileCost>
  getTile(const QuantizeWork &columns, const QuantizeWork &rows,
          const TargetInfo &target) const override;
};
} // namespace

/// Whether chunks of 16 elements are aligned in each row of a matrix.
static bool hasAlignedRows(int64_t pitch, int64_t elementBytes) {
  constexpr int64_t kAlignment = 16;
  return !ShapedType::isDynamic(pitch) &&
         pitch % (kAlignment / elementBytes) == 0;
}

/// Whether columns can be computed from FP8 rows. Scales must be powers of two.
/// FP8 rows and columns must be contiguous, rows whole chunks, and columns
/// aligned where the target needs it (checked at launch if unknown).
static bool canRescale(const QuantizeWork &columns, const QuantizeWork &rows,
                       const TargetInfo &target) {
  // Others would be stored byte by byte, in several times the time of a kernel
  // for each axis (docs/lab/measurements.md, "Held rows").
  if (!target.has(Feature::UnalignedVectors) && hasUnalignedColumns(columns))
    return false;
  // Segments of both are the same dimension, not only as many.
  bool haveSegments = columns.jagged
                          ? rows.segments == 1
                          : rows.segments == columns.segments &&
                                rows.segmentDim == columns.segmentDim;
  bool isPadded = columns.outputPadding > 1;
  return columns.powerOfTwo && rows.powerOfTwo && !rows.jagged &&
         haveSegments && rows.inputRowStride == 1 &&
         rows.outputRowStride == 1 && columns.outputRowStride == 1 &&
         !ShapedType::isDynamic(rows.rows) && rows.rows == columns.columns &&
         rows.rows % kOutputChunk == 0 && rows.rows > 0 &&
         hasAlignedRows(rows.inputColumnStride, rows.inputBytes) &&
         hasAlignedRows(rows.outputColumnStride, 1) &&
         (!isPadded || (columns.outputPadding % rescaled::kLineAlignment == 0 &&
                        rescaled::kTile % columns.outputPadding == 0));
}

/// Returns the tile with its cost for the groups of `columns`. Sizes are
/// nominal.
static std::optional<QuantizeTileCost> estimateTile(const QuantizeWork &columns,
                                                    const TargetInfo &target) {
  const RescaledCalibration *calibration = getRescaledCalibration(target.chip);
  int64_t chunks = columns.columns / kOutputChunk;
  int64_t perThread = llvm::divideCeil(chunks, kMostThreads);
  if (!calibration || perThread > kMostChunks)
    return std::nullopt;
  QuantizeTileCost tile{};
  bool fused = columns.sourceBytes.has_value();
  int64_t threads =
      llvm::alignTo(llvm::divideCeil(chunks, perThread), target.warpSize);
  int64_t wordsOfChunk = perThread * columns.inputBytes / 2;
  int64_t blocks = std::clamp<int64_t>(
      kResidentThreads / wordsOfChunk / threads, 1, kMostBlocks);
  tile.tile = RescaledBothAxesTileAttr::get(columns.context, threads, perThread,
                                            blocks, fused);

  int64_t lines = columns.rows * (columns.jagged ? 1 : columns.segments);
  int64_t resident = target.multiprocessors * blocks;
  int64_t perTile = rescaled::countLinesPerTile(lines, resident);
  tile.workTiles = llvm::divideCeil(lines, perTile);
  tile.residentWorkTiles = std::max<int64_t>(resident, 1);

  double elements = static_cast<double>(lines) * columns.columns;
  auto getTime = [&](double bytes, int64_t percent) {
    bytes = std::min<double>(bytes, kMostModelledBytes);
    tile.cost.bytes += static_cast<int64_t>(bytes);
    return estimateBytes(static_cast<int64_t>(bytes), target).time * 100 /
           percent;
  };
  double inputBytes = fused ? static_cast<double>(lines) * *columns.sourceBytes
                            : elements * columns.inputBytes;
  tile.trafficTime =
      getTime(inputBytes + elements, *calibration->linesPercent) +
      getTime(2 * elements, *calibration->columnsPercent);
  double magnitudes =
      static_cast<double>(std::max(tile.workTiles, columns.segments)) *
      columns.columns;
  tile.latencyTime = static_cast<int64_t>(
      std::min(static_cast<double>(perTile) * *calibration->lineTime +
                   magnitudes * *calibration->magnitudeTime,
               1e18));
  bool hasEdges = columns.jagged && columns.outputPadding == 1;
  double edges = hasEdges ? static_cast<double>(columns.segments) *
                                columns.columns * *calibration->edgeTime
                          : 0.0;
  tile.cost.time =
      kLaunches * estimateTraffic(0, target).time + *calibration->fillTime +
      std::max(tile.trafficTime, tile.latencyTime) +
      static_cast<int64_t>(std::min(edges, 1e18)) +
      estimateUnalignedStores(columns, *calibration->unalignedStoreTime);
  return tile;
}

std::optional<QuantizeTileCost>
RescaledBothAxesFamily::getTile(const QuantizeWork &columns,
                                const QuantizeWork &rows,
                                const TargetInfo &target) const {
  if (!canRescale(columns, rows, target))
    return std::nullopt;
  return estimateTile(withNominalSizes(columns), target);
}

FP8MOE_DEFINE_ROW(KernelFamily, RescaledBothAxesFamily)
