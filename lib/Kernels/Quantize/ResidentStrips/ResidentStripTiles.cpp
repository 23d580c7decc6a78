//===- ResidentStripTiles.cpp - Tiles of kernels that hold strips ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of a kernel that holds strips in registers. A block loads a piece
// of a strip at once, waits for it and for the magnitudes of the strip's other
// pieces, and stores it:
//
//   time     launches + sqrt(traffic^2 + latency^2)
//   traffic  bytes of the sectors touched, and the magnitudes that each piece
//            reads of each other one / speed of a copy
//   latency  waves of blocks * trips to memory of one piece
//
// Strips that may be longer than a piece take two launches, of which the first
// one clears what blocks tell each other, and the second one is cooperative.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/ResidentStrips/ResidentStripTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/ResidentStrips/ResidentStripCalibration.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Columns of a strip: a word of each slot for every lane of a subgroup.
static constexpr int64_t kColumns = 64;

namespace {
class ResidentStripsFamily : public AxisQuantizeFamily {
public:
  ResidentStripsFamily() : AxisQuantizeFamily("resident_strips") {}

  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override;

protected:
  StringRef describeReads(const QuantizeTileCost &) const override {
    return "read once into registers";
  }
};
} // namespace

static QuantizeTileCost estimate(const QuantizeWork &known,
                                 const QuantizeWork &work,
                                 ResidentStripsTileAttr attr,
                                 const ResidentStripCalibration &calibration,
                                 const TargetInfo &target) {
  int64_t held = resident_strips::getHeldRows(attr);
  int64_t rows = std::max<int64_t>(getMeanLength(work), 1);
  double largest = work.jagged && work.segments > 1 ? kLargestGroup : 1;
  // Pieces of a mean segment; the factor `largest` accounts for the largest
  // one.
  int64_t pieces = resident_strips::countPieces(attr, rows);
  int64_t strips = llvm::divideCeil(work.columns, attr.getColumns());

  QuantizeTileCost tile;
  tile.tile = attr;
  tile.workTiles = llvm::SaturatingMultiply<uint64_t>(
      llvm::SaturatingMultiply<uint64_t>(work.segments, pieces), strips);
  tile.residentWorkTiles = attr.getBlocks() * target.multiprocessors;
  tile.rereadsFromCache = true;
  int64_t elements = llvm::SaturatingMultiply<uint64_t>(
      llvm::SaturatingMultiply<uint64_t>(work.rows, work.columns),
      work.jagged ? 1 : work.segments);
  int64_t read = countSectorBytes(
      llvm::SaturatingMultiply<uint64_t>(elements, work.inputBytes),
      std::min(attr.getColumns(), work.columns) * work.inputBytes, target);
  int64_t written = countSectorBytes(
      elements, std::min(two_pass::kTileRowBytes, rows), target);
  tile.cost.bytes =
      read + written + work.segments * work.columns * sizeof(float);
  // Every piece reads the slots of all: the square of a segment's length.
  uint64_t exchanged =
      pieces == 1
          ? 0
          : llvm::SaturatingMultiply<uint64_t>(
                tile.workTiles, pieces * resident_strips::getSlotBytes(attr));
  int64_t moved = std::min<uint64_t>(
      llvm::SaturatingAdd<uint64_t>(tile.cost.bytes, exchanged),
      kMostModelledBytes);
  int64_t launch = estimateTraffic(0, target).time;
  tile.trafficTime = (estimateTraffic(moved, target).time - launch) * 100 /
                     *calibration.speedPercent;
  bool areKnownShort = !ShapedType::isDynamic(known.rows) && known.rows <= held;
  int64_t trips = 1 + (work.jagged ? *calibration.boundsTrips : 0);
  if (largest * rows > held)
    trips += *calibration.exchangeTrips;
  tile.latencyTime = static_cast<int64_t>(largest * tile.getWaves() * trips *
                                          *calibration.memoryLatency);
  tile.cost.time =
      (areKnownShort ? launch : 2 * launch + *calibration.cooperativeTime) +
      overlapTimes(tile.trafficTime, tile.latencyTime);
  return tile;
}

void ResidentStripsFamily::addTiles(
    const QuantizeWork &known, const QuantizeWork &work,
    const TargetInfo &target, SmallVectorImpl<QuantizeTileCost> &tiles) const {
  // Scales alone are made by the first of two passes.
  if (known.scalesOnly)
    return;
  const ResidentStripCalibration *calibration =
      getResidentStripCalibration(target.chip);
  if (!calibration || !target.has(Feature::CooperativeLaunch) ||
      getQuantizeKind(known) != QuantizeKind::OuterTransposing ||
      known.inputColumnStride != 1 || known.outputRowStride != 1)
    return;
  const ResidentStripRegisters &ofChip = calibration->registers.value;
  ArrayRef<int64_t> registers =
      work.inputBytes > 2 ? ofChip.wide : ofChip.narrow;
  constexpr int64_t kThreads = resident_strips::countThreads(kColumns);
  two_pass::SharedMemory memory(QuantizeKind::OuterTransposing, kColumns,
                                kThreads, target.warpSize);
  for (auto [index, held] : llvm::enumerate(ResidentStripRegisters::kHeld)) {
    int64_t heldTiles =
        held * sizeof(int32_t) /
        (two_pass::kTileVector * two_pass::kTilePack * work.inputBytes);
    if (int64_t blocks = countResidentBlocks(kThreads, registers[index],
                                             memory.getTotal(), target))
      tiles.push_back(estimate(known, work,
                               ResidentStripsTileAttr::get(
                                   work.context, kColumns, heldTiles, blocks),
                               *calibration, target));
  }
}

FP8MOE_DEFINE_ROW(KernelFamily, ResidentStripsFamily)
