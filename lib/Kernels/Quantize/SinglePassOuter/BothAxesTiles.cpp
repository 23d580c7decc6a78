//===- BothAxesTiles.cpp - Tiles of the kernel for both axes --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model: as the single-pass outer kernel's, at another part of a copy's
// speed. Rows and tiles read the same tensor. While one group's columns are
// streamed, its rows are read; the second to come finds what the first has left
// in the L2 cache, unless groups are large.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterCalibration.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Least rows in shared memory: each row warp has one, and the next rows are
/// loading.
static constexpr int64_t kLeastRowStages = SinglePassOuterTile::kRowWarps;
/// More than this many rows are never loaded ahead.
static constexpr int64_t kMostRowStages = 4 * kLeastRowStages;
/// Stages to consider, from the most on. Rows need the memory, while tiles have
/// to wait for the scales of their panel. In one run on the same chip and shape
/// 7 took 112 us, 9 took 111 us, 10 took 114 us.
static constexpr int64_t kMostStages = 9;
static constexpr int64_t kLeastStages = 7;

std::optional<SinglePassOuterTile>
fp8moe::getBothAxesOuterTile(int64_t rowBytes, const TargetInfo &target) {
  if (ShapedType::isDynamic(rowBytes) ||
      rowBytes % single_pass_outer::kRowAlignment)
    return std::nullopt;
  SinglePassOuterTile tile;
  tile.rowBytes = rowBytes;
  for (tile.stages = kMostStages; tile.stages >= kLeastStages; --tile.stages)
    for (tile.rowStages = kMostRowStages; tile.rowStages >= kLeastRowStages;
         --tile.rowStages)
      if (single_pass_outer::SharedMemory(tile).end <=
          target.sharedMemoryPerBlock)
        return tile;
  return std::nullopt;
}

namespace {
class SinglePassBothAxesFamily : public BothAxesFamily {
public:
  SinglePassBothAxesFamily() : BothAxesFamily("single_pass_both_axes") {}

  std::optional<QuantizeTileCost>
  getTile(ArrayRef<QuantizeWork> works,
          const TargetInfo &target) const override;
  RangeAttr getRange(ArrayRef<QuantizeWork> works,
                     const TargetInfo &target) const override;

protected:
  StringRef getWorkTileName() const override { return "tiles"; }
};
} // namespace

/// Above some size of groups on average, a second read finds less in the cache:
/// on one NVIDIA H200, 32768x7168 in 16 groups (29 MB) take 313 us and a
/// launch for each axis 358 us. In 8 groups (59 MB) it was 331 and 355 us, when
/// the former took 323 us. The range is the same part of the cache of whatever
/// card runs the program: what is usable follows from its two halves, which all
/// cards of a chip have.
RangeAttr SinglePassBothAxesFamily::getRange(ArrayRef<QuantizeWork> works,
                                             const TargetInfo &target) const {
  return RangeAttr::get(works[0].context, Quantity::GroupBytes, /*above=*/0,
                        target.l2.usablePercent, /*percent_of_l2=*/true);
}

std::optional<QuantizeTileCost>
SinglePassBothAxesFamily::getTile(ArrayRef<QuantizeWork> works,
                                  const TargetInfo &target) const {
  if (works.size() != 2 || !works[0].jagged ||
      works[0].fp8Type != works[1].fp8Type ||
      !target.has(Feature::RegisterReallocation))
    return std::nullopt;
  const QuantizeWork &columns = works[0], &rows = works[1];
  QuantizeWork nominal = withNominalSizes(columns);
  SmallVector<QuantizeTileCost> outer;
  addSinglePassOuterTiles(columns, nominal, target, outer);
  if (outer.empty() || rows.jagged || ShapedType::isDynamic(rows.rows) ||
      rows.inputRowStride != 1 || rows.outputRowStride != 1 ||
      ShapedType::isDynamic(rows.outputColumnStride))
    return std::nullopt;
  // The output of each copied piece of the input is stored at once.
  if (rows.outputColumnStride %
      (single_pass_outer::kRowAlignment / rows.inputBytes))
    return std::nullopt;
  // Rows of more bytes than can be counted do not fit either.
  int64_t rowBytes = multiplySizes(rows.rows, rows.inputBytes);
  std::optional<SinglePassOuterTile> tile =
      getBothAxesOuterTile(rowBytes, target);
  const SinglePassOuterCalibration *calibration =
      getSinglePassOuterCalibration(target.chip);
  if (!tile || !calibration)
    return std::nullopt;

  QuantizeTileCost result = outer.front();
  result.tile = SinglePassBothAxesTileAttr::get(
      columns.context, single_pass_outer::kLineBytes / columns.inputBytes,
      tile->stages, rowBytes, tile->rowStages);
  double inputBytes = static_cast<double>(nominal.rows) * rowBytes;
  double groupBytes = inputBytes / nominal.segments;
  double readAgain =
      groupBytes / (groupBytes + *calibration->halfReadAgain * target.l2.bytes);
  double outputBytes = 2 * inputBytes / nominal.inputBytes;
  double bytes = inputBytes * (1 + readAgain) + outputBytes;
  result.cost.bytes = static_cast<int64_t>(bytes);
  int64_t launch = estimateTraffic(0, target).time;
  int64_t moving = estimateTraffic(result.cost.bytes, target).time - launch;
  // Tiles that are not full cost as much as in the single-pass outer kernel
  // alone.
  double fullness = std::min(1.0, static_cast<double>(result.trafficTime) /
                                      std::max<int64_t>(result.latencyTime, 1));
  result.trafficTime = moving * 100 / *calibration->bothAxesSpeedPercent;
  result.latencyTime =
      static_cast<int64_t>(result.trafficTime / std::max(fullness, 1e-3));
  result.cost.time =
      launch + *calibration->fillTime +
      std::max(result.trafficTime, result.latencyTime) +
      estimateUnalignedStores(nominal, *calibration->shiftedStoreTime) +
      nominal.segments * *calibration->segmentTime;
  return result;
}

FP8MOE_DEFINE_ROW(KernelFamily, SinglePassBothAxesFamily)
