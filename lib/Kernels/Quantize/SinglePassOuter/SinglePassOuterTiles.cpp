//===- SinglePassOuterTiles.cpp - Tiles of a single pass ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model: the kernel moves the bytes of a copy at some fraction of a copy's
// speed, besides a time in which blocks meet and the first panels go through
// all roles. Rows of a tile that belong to nobody take time too, so that short
// segments cost more than their bytes.
//
// For both axes it is the same at another part of a copy's speed. Rows and
// tiles read the same tensor. While one group's columns are streamed, its rows
// are read; the second to come finds what the first has left in the L2 cache,
// unless groups are large.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterCalibration.h"
#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Returns the tile with its cost, where it is legal.
static std::optional<QuantizeTileCost> getOuterTile(const QuantizeWork &known,
                                                    const QuantizeWork &nominal,
                                                    const TargetInfo &target) {
  // Scales alone are made by the first of two passes.
  if (known.scalesOnly)
    return std::nullopt;
  SinglePassOuterTile tile;
  const SinglePassOuterCalibration *calibration =
      getSinglePassOuterCalibration(target.chip);
  if (!target.has(Feature::TensorMaps) || !calibration ||
      getQuantizeKind(known) != QuantizeKind::OuterTransposing ||
      known.inputColumnStride != 1 || known.outputRowStride != 1 ||
      !llvm::all_of(single_pass_outer::getSizeDemands(
                        getKnownSizes(known), known.inputBytes,
                        !known.jagged && known.inputSegmentStride != 0),
                    mayHold) ||
      !countResidentBlocks(tile.getThreads(target.warpSize),
                           *calibration->registers,
                           single_pass_outer::SharedMemory(tile).end, target))
    return std::nullopt;

  QuantizeTileCost result;
  result.tile = SinglePassOuterTileAttr::get(
      known.context, single_pass_outer::kLineBytes / known.inputBytes,
      tile.stages);
  int64_t rowsPerSegment =
      nominal.jagged ? getMeanLength(nominal) + *calibration->unusedRows
                     : llvm::alignTo(nominal.rows, single_pass_outer::kLines);
  int64_t elements = llvm::SaturatingMultiply<uint64_t>(
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.columns),
      nominal.jagged ? 1 : nominal.segments);
  // A panel is the column of tiles below each other in one segment.
  int64_t panels = ceilDiv(nominal.columns,
                           single_pass_outer::kLineBytes / nominal.inputBytes) *
                   nominal.segments;
  result.workTiles = llvm::divideCeil(
      llvm::SaturatingMultiply<uint64_t>(panels, rowsPerSegment),
      single_pass_outer::kLines);
  result.residentWorkTiles = target.multiprocessors;
  result.rereadsFromCache = true;
  result.cost.bytes =
      llvm::SaturatingMultiply<uint64_t>(elements, nominal.inputBytes + 1) +
      nominal.segments * nominal.columns * sizeof(float);
  int64_t launch = estimateTraffic(0, target).time;
  auto getTime = [&](int64_t bytes) -> int64_t {
    return (estimateTraffic(bytes, target).time - launch) * 100 /
           (nominal.jagged ? *calibration->speedPercent
                           : *calibration->wholeSpeedPercent);
  };
  result.trafficTime = getTime(result.cost.bytes);
  // Tiles of which little is used move less, but not in as much less time.
  int64_t tileBytes = single_pass_outer::kLines * single_pass_outer::kLineBytes;
  tileBytes += tileBytes / nominal.inputBytes;
  result.latencyTime =
      getTime(llvm::SaturatingMultiply<uint64_t>(result.workTiles, tileBytes));
  result.cost.time =
      launch + *calibration->fillTime +
      std::max(result.trafficTime, result.latencyTime) +
      estimateUnalignedStores(nominal, *calibration->shiftedStoreTime);
  if (nominal.jagged)
    result.cost.time += llvm::SaturatingMultiply<uint64_t>(
        nominal.segments, *calibration->segmentTime);
  return result;
}

namespace {
class SinglePassOuterFamily : public AxisQuantizeFamily {
public:
  SinglePassOuterFamily() : AxisQuantizeFamily("single_pass_outer") {}

  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override {
    if (std::optional<QuantizeTileCost> tile =
            getOuterTile(known, nominal, target))
      tiles.push_back(*tile);
  }

protected:
  StringRef getWorkTileName() const override { return "tiles"; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Both axes
//===----------------------------------------------------------------------===//

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
  getTile(const QuantizeWork &columns, const QuantizeWork &rows,
          const TargetInfo &target) const override;
  RangeAttr getRange(const QuantizeWork &columns,
                     const TargetInfo &target) const override;
};
} // namespace

/// Above some size of groups on average, a second read finds less in the cache:
/// on one NVIDIA H200, 32768x7168 in 16 groups (29 MB) take 313 us and a
/// launch for each axis 358 us. In 8 groups (59 MB) it was 331 and 355 us, when
/// the former took 323 us. The range is the same part of the cache of whatever
/// card runs the program: what is usable follows from its two halves, which all
/// cards of a chip have.
RangeAttr SinglePassBothAxesFamily::getRange(const QuantizeWork &columns,
                                             const TargetInfo &target) const {
  return RangeAttr::get(columns.context, Quantity::GroupBytes, /*above=*/0,
                        target.l2.usablePercent, /*percent_of_l2=*/true);
}

std::optional<QuantizeTileCost>
SinglePassBothAxesFamily::getTile(const QuantizeWork &columns,
                                  const QuantizeWork &rows,
                                  const TargetInfo &target) const {
  if (!columns.jagged || !target.has(Feature::RegisterReallocation))
    return std::nullopt;
  QuantizeWork nominal = withNominalSizes(columns);
  std::optional<QuantizeTileCost> outer =
      getOuterTile(columns, nominal, target);
  if (!outer || rows.jagged || ShapedType::isDynamic(rows.rows) ||
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

  QuantizeTileCost result = *outer;
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
FP8MOE_DEFINE_ROW(KernelFamily, SinglePassOuterFamily)
