//===- SinglePassInnerTiles.cpp - Tiles of whole columns ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model: every block takes as many columns as any other or one more, at
// some fraction of a copy's speed, besides a time in which the ring fills and
// drains. Ends of groups take time, and many of them keep all warps busy.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassInnerTiles.h"
#include "Tuning/Quantize/NVIDIA/SinglePassInnerCalibration.h"
#include "Tuning/Quantize/QuantizeCandidates.h"
#include "Tuning/Quantize/QuantizeFamily.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"
#include "fp8moe/Tuning/Common/Occupancy.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassModels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

SinglePassInnerTile fp8moe::getSinglePassInnerTile(int64_t groups) {
  SinglePassInnerTile tile;
  tile.groups = ShapedType::isDynamic(groups)
                    ? single_pass_inner::kDefaultGroups
                    : groups;
  return tile;
}

/// The smallest cluster whose blocks can hold a column of so many bytes.
static std::optional<SinglePassInnerTile>
getTileFor(SinglePassInnerTile tile, int64_t bytes, const TargetInfo &target) {
  for (int64_t cluster : single_pass_inner::kClusters) {
    tile.cluster = cluster;
    single_pass_inner::SharedMemory memory(tile, target.sharedMemoryPerBlock);
    if (bytes <= memory.getMaxColumn(tile).value_or(-1))
      return tile;
  }
  return std::nullopt;
}

namespace {
class SinglePassInnerFamily : public AxisQuantizeFamily {
public:
  SinglePassInnerFamily()
      : AxisQuantizeFamily("single_pass_inner",
                           QuantizeMethod::SinglePassInner) {}

  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override;
};
} // namespace

void SinglePassInnerFamily::addTiles(
    const QuantizeWork &known, const QuantizeWork &nominal,
    const TargetInfo &target, SmallVectorImpl<QuantizeTileCost> &tiles) const {
  // Scales alone are made by the first of two passes.
  if (known.scalesOnly)
    return;
  const SinglePassInnerCalibration *calibration =
      getSinglePassInnerCalibration(target.chip);
  if (!target.has(Feature::BulkCopies | Feature::Clusters) || !calibration ||
      !known.jagged || known.outputPadding > 1 ||
      getQuantizeKind(known) != QuantizeConfig::Inner ||
      known.inputRowStride != 1 || known.outputRowStride != 1 ||
      !llvm::all_of(single_pass_inner::getSizeDemands(getKnownSizes(known),
                                                      known.inputBytes),
                    mayHold))
    return;
  int64_t columnBytes =
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.inputBytes);
  std::optional<SinglePassInnerTile> tile = getTileFor(
      getSinglePassInnerTile(std::min(known.segments, kMostModelledSize)),
      columnBytes, target);
  if (!tile)
    return;
  int64_t threads = tile->getThreads(target.warpSize);
  if (!countResidentBlocks(
          threads, *calibration->registers,
          single_pass_inner::SharedMemory(*tile, target.sharedMemoryPerBlock)
              .end,
          target))
    return;

  QuantizeTileCost result;
  result.config.kind = QuantizeConfig::Inner;
  result.config.method = QuantizeMethod::SinglePassInner;
  result.config.groups = tile->groups;
  result.config.threads = threads;
  result.config.columnsPerBlock = 1;
  result.workTiles =
      llvm::SaturatingMultiply<uint64_t>(nominal.columns, tile->cluster);
  result.residentWorkTiles =
      llvm::alignDown(target.multiprocessors, tile->cluster);
  result.rereadsFromCache = true;
  int64_t elements =
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.columns);
  result.cost.bytes =
      llvm::SaturatingMultiply<uint64_t>(elements, nominal.inputBytes + 1) +
      nominal.segments * nominal.columns * sizeof(float);
  int64_t launch = estimateTraffic(0, target).time;
  // What the block with the most columns takes, if all had as many.
  double balance = static_cast<double>(result.getWaves()) *
                   result.residentWorkTiles /
                   std::max<int64_t>(result.workTiles, 1);
  result.trafficTime = static_cast<int64_t>(
      (estimateTraffic(result.cost.bytes, target).time - launch) * 100.0 /
      *calibration->speedPercent * balance);
  double lines =
      static_cast<double>(columnBytes) / single_pass_inner::kLineBytes;
  double bulkTiles =
      static_cast<double>(columnBytes) / single_pass_inner::kBulkTileBytes +
      tile->cluster;
  double column =
      lines * *calibration->lineTime + bulkTiles * *calibration->bulkTileTime +
      static_cast<double>(nominal.segments) * *calibration->groupTime;
  result.latencyTime = static_cast<int64_t>(
      std::min(column / tile->cluster * result.getWaves(), 1e18));
  result.cost.time = launch +
                     (tile->cluster > 1 ? *calibration->clusterFillTime
                                        : *calibration->fillTime) +
                     std::max(result.trafficTime, result.latencyTime);
  tiles.push_back(result);
}

namespace mlir::fp8moe {
const KernelFamily &getSinglePassInnerFamily() {
  static const SinglePassInnerFamily family;
  return family;
}
} // namespace mlir::fp8moe
