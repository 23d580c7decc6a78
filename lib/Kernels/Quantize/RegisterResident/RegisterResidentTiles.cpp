//===- RegisterResidentTiles.cpp - Tiles of kernels that hold slices ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The cost model of a kernel that holds slices in registers. A team of threads
// loads a slice at once, waits, and stores it. Rows that do not fit are read
// twice, one round trip after the other:
//
//   time     one launch + sqrt(traffic^2 + latency^2)
//   traffic  bytes of the sectors touched / speed of a copy
//   latency  waves of blocks * (one wait + the round trips of later rows)
//
// The root of the sum of squares models their overlap. A wave counts in part,
// as blocks do not all end at once. Times are in RegisterResidentCalibration.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RegisterResident/RegisterResidentTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/RegisterResident/RegisterResidentCalibration.h"
#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

/// Most registers of a thread that hold data. With more, too few teams are
/// resident to hide each other's latency.
static constexpr int64_t kHeldRegisters = 64;
/// Registers of a thread that hold data of a jagged group, or of a slice of
/// unknown length. From 256 to 16384 rows, and at 2048 columns or more, teams
/// that hold a mean group this way were the fastest or within a tenth of it.
/// The card is that of the first row of RegisterResidentCalibration.h.
static constexpr int64_t kUnknownHeldRegisters = 32;

static constexpr int64_t kTeams[] = {8, 16, 32, 64, 128, 256, 512};
/// Least threads of a block, which small teams share.
static constexpr int64_t kLeastThreads = 128;
/// Columns that a team processes one after the other for jagged segments, as
/// finding a group's bounds takes longer than a short slice.
static constexpr int64_t kJaggedRounds = 4;

/// Decay, as a team grows, of the rows that its registers cannot hold. Of
/// groups that are cut at random, exp(-1) are longer than the mean; with sizes
/// of 0.5 to 1.5 means, fewer. This is the best of 0.8 to 2.7 for both.
static constexpr double kLengthSpread = 1.3;

/// Returns the registers of a thread: those needed without spilling, rounded up
/// to the granularity of the hardware.
static int64_t getRegisters(const QuantizeWork &work, int64_t heldRegisters,
                            const RegisterResidentRegisters &registers) {
  constexpr int64_t kGranularity = 8;
  int64_t needed =
      work.jagged
          ? registers.jagged
          : registers
                .slices[llvm::divideCeil(heldRegisters,
                                         RegisterResidentRegisters::kStep) -
                        1];
  return llvm::alignTo(needed, kGranularity);
}

/// Returns the chunks that a thread of a team holds.
static int64_t countChunks(const QuantizeWork &work, int64_t team, bool isKnown,
                           int64_t rows) {
  int64_t perChunk = kOutputChunk * work.inputBytes / sizeof(int32_t);
  return isKnown
             ? std::min<int64_t>(kHeldRegisters / perChunk,
                                 llvm::divideCeil(rows, team * kOutputChunk))
             : kUnknownHeldRegisters / perChunk;
}

static QuantizeTileCost estimate(const QuantizeWork &work,
                                 RegisterResidentTileAttr attr, int64_t rows,
                                 const RegisterResidentCalibration &calibration,
                                 const TargetInfo &target) {
  int64_t team = attr.getThreads() / attr.getColumns();
  double held = attr.getChunks() * team * kOutputChunk;
  // Not every group has the mean length.
  double later = work.jagged ? rows * std::exp(-kLengthSpread * held / rows)
                             : std::max<double>(rows - held, 0);
  double trips = later / (team * kOutputChunk);
  trips = 2 * (work.jagged ? trips : std::ceil(trips));
  double elements = static_cast<double>(rows) * work.columns * work.segments;
  double traffic = elements * work.inputBytes * (1 + later / rows) + elements +
                   4.0 * work.segments * work.columns;

  QuantizeTileCost tile;
  tile.tile = attr;
  tile.workTiles = register_resident::countWorkTiles(
      attr, work.segments, work.columns, /*withRemainder=*/false);
  tile.residentWorkTiles = attr.getBlocks() * target.multiprocessors;
  tile.rereadsFromCache = later == 0;
  Cost cost =
      estimateTraffic(static_cast<int64_t>(std::min(traffic, 1e18)), target);
  int64_t launch = estimateTraffic(0, target).time;
  tile.trafficTime = cost.time - launch;
  double workTile =
      attr.getRounds() * (*calibration.wait + trips * *calibration.laterTrip) +
      (work.jagged ? *calibration.bounds : 0);
  if (work.jagged && hasChunksApart(work))
    workTile += attr.getRounds() * *calibration.elementTrip * rows / team;
  double waves = static_cast<double>(tile.workTiles) / tile.residentWorkTiles;
  tile.latencyTime =
      static_cast<int64_t>(std::min(workTile * std::max(waves, 1.0), 1e18));
  tile.cost = cost;
  tile.cost.time = launch + overlapTimes(tile.trafficTime, tile.latencyTime);
  return tile;
}

namespace {
class RegisterResidentFamily : public AxisQuantizeFamily {
public:
  RegisterResidentFamily() : AxisQuantizeFamily("register_resident") {}

  bool isGeneral() const override { return true; }
  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override;

protected:
  StringRef describeReads(const QuantizeTileCost &tile) const override {
    return tile.rereadsFromCache ? "read once" : "read twice where too long";
  }
};
} // namespace

void RegisterResidentFamily::addTiles(
    const QuantizeWork &known, const QuantizeWork &work,
    const TargetInfo &target, SmallVectorImpl<QuantizeTileCost> &tiles) const {
  // Scales alone are made by the first of two passes.
  if (known.scalesOnly)
    return;
  const RegisterResidentCalibration *calibration =
      getRegisterResidentCalibration(target.chip);
  if (!calibration || getQuantizeKind(work) != QuantizeKind::Inner)
    return;
  // A kernel for any length of slices holds the same number of chunks.
  bool isLengthKnown = !ShapedType::isDynamic(getMeanLength(known));
  int64_t rows = std::max<int64_t>(getMeanLength(work), 1);
  for (int64_t team : kTeams) {
    int64_t threads = std::max(team, kLeastThreads);
    int64_t chunks =
        countChunks(work, team, isLengthKnown && !work.jagged, rows);
    int64_t heldRegisters =
        chunks * kOutputChunk * work.inputBytes / sizeof(int32_t);
    int64_t blocks = countResidentBlocks(
        threads, getRegisters(work, heldRegisters, *calibration->registers),
        register_resident::getSharedBytes(team, threads, target.warpSize),
        target);
    if (!blocks)
      continue;
    auto tile = RegisterResidentTileAttr::get(
        work.context, threads / team, threads, chunks,
        work.jagged ? kJaggedRounds : 1, blocks);
    tiles.push_back(estimate(work, tile, rows, *calibration, target));
  }
}

FP8MOE_DEFINE_ROW(KernelFamily, RegisterResidentFamily)
