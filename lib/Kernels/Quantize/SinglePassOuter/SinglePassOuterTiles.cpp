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
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassModels.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterCalibration.h"
#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class SinglePassOuterFamily : public AxisQuantizeFamily {
public:
  SinglePassOuterFamily() : AxisQuantizeFamily("single_pass_outer") {}

  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override {
    addSinglePassOuterTiles(known, nominal, target, tiles);
  }

protected:
  StringRef getWorkTileName() const override { return "tiles"; }
};
} // namespace

void fp8moe::addSinglePassOuterTiles(const QuantizeWork &known,
                                     const QuantizeWork &nominal,
                                     const TargetInfo &target,
                                     SmallVectorImpl<QuantizeTileCost> &tiles) {
  // Scales alone are made by the first of two passes.
  if (known.scalesOnly)
    return;
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
    return;

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
  tiles.push_back(result);
}

FP8MOE_DEFINE_ROW(KernelFamily, SinglePassOuterFamily)
