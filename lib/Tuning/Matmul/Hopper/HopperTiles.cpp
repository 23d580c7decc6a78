//===- HopperTiles.cpp - Tiles of Hopper's grouped matmul -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of a grouped matmul. As many blocks as there are multiprocessors
// take tiles in turn:
//
//   time      one launch + the longer of tiles and traffic + a part of the
//             other one
//   tiles     waves * time of a tile
//   tile      stages of the contraction * time of a stage, and what the
//             schedule cannot hide of writing the result
//   stage     multiplications at the rate that the chip sustains, which falls
//             with the bytes that a tile reads for each of them, and once more
//             when shared memory cannot keep up
//   waves     tiles / multiprocessors, rounded up; a group's last tile along
//             the rows is half full in expectation. How full they are together
//             varies: the mean of two cases counts. A weight gradient's groups
//             are partly taken as if one came after the other
//   traffic   bytes of operands and result / speed of a copy
//
// The constants are fitted to one NVIDIA H200 at its power limit, 2026-11-22:
// every tile of eight shapes in both modes
// (unittests/Tuning/Matmul/Hopper/HopperTilesTest.cpp). The tiles that it
// chooses there take 0.5% more time than the best ones in the geometric
// mean, 5.5% at worst.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Tuning/Common/MemoryCost.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// What the model knows of the kernels and of the chip
//===----------------------------------------------------------------------===//

/// Consumer warpgroups of a block.
static constexpr int64_t kConsumers = 2;
/// Bytes of the contraction in a stage, for each row of an operand.
static constexpr int64_t kStageRowBytes = 128;
/// A barrier for full and one for empty.
static constexpr int64_t kStageBarrierBytes = 16;

/// Part of the data sheet's rate that is left at the power limit, for a tile
/// that reads nothing, and how much a tile's stages slow down per 1/rows +
/// 1/columns.
static constexpr double kSustainedRate = 0.7525;
static constexpr double kOperandSlowdown = 8;
/// Bytes that shared memory moves in a cycle, and how many it may have to move
/// in a cycle of the tensor cores, for them and for the copies, before these
/// wait: the power limit slows them, too. What is beyond that slows a stage.
static constexpr double kSharedBytesPerCycle = 128;
static constexpr double kSharedBytesHidden = 160;
static constexpr double kSharedSlowdown = 0.4;
/// Bytes of both operands that a cycle of the tensor cores multiplies, each
/// with each: 64 rows by columns and 32 bytes take columns / 2 cycles.
static constexpr double kProductBytesPerCycle = 4096;
/// Picoseconds between two tiles when one warpgroup writes while the other
/// multiplies.
static constexpr int64_t kTurnTime = 64000;
/// Picoseconds per element of a tile that a warpgroup takes to write a bf16
/// result, beside the other one's multiplications, and the factor of boxes
/// narrower than 128 bytes.
static constexpr double kWriteTime = 84;
static constexpr double kNarrowWrite = 1.2;
/// Picoseconds per element that the tensor cores wait for the result to be
/// written, when nobody else multiplies, and when somebody competes.
static constexpr double kExposedTime = 33;
static constexpr double kCompetingTime = 128;
/// How much of the shorter of two times is not hidden by the longer one.
static constexpr double kOverlapLoss = 0.25;
/// How much a weight gradient's groups, which differ in length, are like groups
/// that run one after the other: the tiles of a long one may be too few for all
/// multiprocessors, or one too many.
static constexpr double kGroupsApart = 0.11;
/// Factor of a stage when a warpgroup that has the tensor cores alone
/// multiplies 64 rows, so that half as many instructions are under way.
static constexpr double kFewInstructions = 1.06;
/// Factor of a stage that two warpgroups share: both wait for it at once.
static constexpr double kSharedStage = 1.05;
/// Factor of a stage when its products are added in f32 by a warpgroup that
/// shares the tensor cores, and by one that has them alone.
static constexpr double kPromotedShared = 1.05;
static constexpr double kPromotedAlone = 1.35;
/// Registers of a consumer's thread.
static constexpr int64_t kConsumerRegisters = 240;
/// Registers beside the accumulators in the loop, in the epilogue, and in one
/// that also reads what it accumulates into. With ptxas of CUDA 13, loops of
/// 192 accumulators (promoted ones) and epilogues of 160, or 128 with an
/// addend, do not spill; epilogues of 192, or 160 with an addend, do.
static constexpr int64_t kLoopRegisters = 40;
static constexpr int64_t kEpilogueRegisters = 72;
static constexpr int64_t kAddendRegisters = 40;
/// What an f32 addend keeps alive across the loop. With 192 accumulators, ptxas
/// spills it; a bf16 addend fits.
static constexpr int64_t kAddendLoopRegisters = 16;
static constexpr int64_t kRowsPerInstruction = 64;

/// Tiles that are tried. Narrower ones read more than the shared memory
/// delivers.
static constexpr int64_t kTileColumns[] = {64, 96, 128, 160, 192, 256};
/// More stages than this hide nothing more.
static constexpr int64_t kMaxStages = 8;

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

MatmulMemory MatmulMemory::get(const MatmulSchedule &schedule) {
  int64_t stages = schedule.stages * schedule.getNumRings();
  MatmulMemory memory;
  memory.a = 0;
  memory.b = memory.a + stages * schedule.rows * kStageRowBytes;
  memory.staging = memory.b + stages * schedule.columns * kStageRowBytes;
  memory.scales =
      memory.staging + kConsumers * kMatmulWarps * 2 * kMatmulStagingBytes;
  memory.barriers =
      memory.scales + kConsumers *
                          (schedule.getConsumerRows() + schedule.columns) *
                          sizeof(float);
  memory.total = memory.barriers + stages * kStageBarrierBytes;
  return memory;
}

/// Registers that a consumer's thread needs.
static int64_t countRegisters(const MatmulSchedule &schedule,
                              const MatmulWork &work) {
  int64_t blocks = schedule.getConsumerRows() / kRowsPerInstruction;
  int64_t perBlock = schedule.columns / 2;
  // Products that are not added yet are gone when the result is written.
  int64_t loop =
      (blocks + work.promoted) * perBlock + kLoopRegisters +
      (work.accumulates && work.resultBytes == 4 ? kAddendLoopRegisters : 0);
  int64_t epilogue = blocks * perBlock + kEpilogueRegisters +
                     (work.accumulates ? kAddendRegisters : 0);
  return std::max(loop, epilogue);
}

/// Why a tile cannot be built, or nothing.
static std::optional<std::string> explainIllegal(const MatmulSchedule &schedule,
                                                 const MatmulWork &work,
                                                 const TargetInfo &target) {
  int64_t registers = countRegisters(schedule, work);
  if (registers > kConsumerRegisters)
    return llvm::formatv("a thread needs {0} registers for its accumulators "
                         "and what goes with them, it has {1}",
                         registers, kConsumerRegisters);
  int64_t bytes = MatmulMemory::get(schedule).total;
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv("it takes {0} bytes of shared memory, a block has {1}",
                         bytes, target.sharedMemoryPerBlock);
  return std::nullopt;
}

/// The most stages that fit, at least two.
static MatmulSchedule withMostStages(MatmulSchedule schedule,
                                     const TargetInfo &target) {
  for (schedule.stages = kMaxStages; schedule.stages > 2; --schedule.stages)
    if (MatmulMemory::get(schedule).total <= target.sharedMemoryPerBlock)
      break;
  return schedule;
}

static SmallVector<MatmulSchedule>
enumerateSchedules(const MatmulWork &work, const TargetInfo &target) {
  SmallVector<MatmulSchedule> schedules;
  auto add = [&](GemmSchedule kind, int64_t rows) {
    for (int64_t columns : kTileColumns) {
      MatmulSchedule schedule;
      schedule.kind = kind;
      schedule.rows = rows;
      schedule.columns = columns;
      schedule = withMostStages(schedule, target);
      if (!explainIllegal(schedule, work, target))
        schedules.push_back(schedule);
    }
  };
  add(work.promoted ? GemmSchedule::Independent : GemmSchedule::PingPong, 128);
  add(work.promoted ? GemmSchedule::Independent : GemmSchedule::PingPong, 64);
  add(GemmSchedule::Cooperative, 128);
  add(GemmSchedule::Cooperative, 256);
  return schedules;
}

//===----------------------------------------------------------------------===//
// Predicted time
//===----------------------------------------------------------------------===//

/// Picoseconds of one stage.
static double getStageTime(const MatmulSchedule &schedule,
                           const MatmulWork &work, const TargetInfo &target) {
  double teraflops =
      work.elementBytes == 1 ? target.fp8TFlops : target.bf16TFlops;
  double flops = 2.0 * schedule.rows * schedule.columns * kStageRowBytes /
                 work.elementBytes;
  double rows = schedule.rows, columns = schedule.columns;
  double reads = kRowsPerInstruction * (1 + kRowsPerInstruction / columns);
  double copies = kProductBytesPerCycle * (1 / rows + 1 / columns);
  double excess = std::max(0.0, reads + copies - kSharedBytesHidden);
  double slowdown = 1 + kOperandSlowdown * (1 / rows + 1 / columns) +
                    kSharedSlowdown * excess / kSharedBytesPerCycle;
  double time =
      flops * slowdown * target.multiprocessors / (teraflops * kSustainedRate);
  if (schedule.kind == GemmSchedule::Cooperative)
    time *= kSharedStage;
  if (!work.promoted) {
    bool isAlone = schedule.kind == GemmSchedule::PingPong;
    bool isOneBlock = schedule.getConsumerRows() == kRowsPerInstruction;
    return time * (isAlone && isOneBlock ? kFewInstructions : 1);
  }
  return time * (schedule.kind == GemmSchedule::PingPong      ? kPromotedAlone
                 : schedule.kind == GemmSchedule::Cooperative ? kPromotedShared
                                                              : 1);
}

/// Picoseconds of a tile whose multiplications take `multiply`.
static double getTileTime(const MatmulSchedule &schedule,
                          const MatmulWork &work, double multiply) {
  double elements = static_cast<double>(schedule.rows) * schedule.columns *
                    work.resultBytes / 2;
  switch (schedule.kind) {
  case GemmSchedule::PingPong: {
    // A warpgroup multiplies and writes while the other does the same.
    bool isNarrow = schedule.columns * work.resultBytes % kStageRowBytes;
    double write = kWriteTime * elements * (isNarrow ? kNarrowWrite : 1);
    return kTurnTime + std::max(multiply, (multiply + write) / 2);
  }
  case GemmSchedule::Independent:
    return multiply + kCompetingTime * elements;
  case GemmSchedule::Cooperative:
    return multiply + kExposedTime * elements;
  }
  llvm_unreachable("unknown schedule");
}

/// Models of very large matmuls end where 64 bits do, with room for additions.
static int64_t toCount(double value) {
  constexpr int64_t kMost = int64_t(1) << 61;
  return value < static_cast<double>(kMost) ? static_cast<int64_t>(value)
                                            : kMost;
}

/// Waves in expectation.
static double countWaves(const MatmulSchedule &schedule, const MatmulWork &work,
                         const TargetInfo &target) {
  int64_t columns = llvm::divideCeil(work.columns, schedule.columns);
  if (!work.forward) {
    int64_t tiles = llvm::divideCeil(work.rows, schedule.rows) * columns;
    double apart =
        static_cast<double>(work.groups) *
        static_cast<double>(llvm::divideCeil(tiles, target.multiprocessors));
    double together =
        llvm::divideCeil(llvm::SaturatingMultiply<uint64_t>(work.groups, tiles),
                         target.multiprocessors);
    return together + kGroupsApart * (apart - together);
  }
  int64_t perWave = schedule.rows * target.multiprocessors;
  auto count = [&](int64_t ragged) -> double {
    int64_t covered = std::max<int64_t>(llvm::alignTo(work.rows, schedule.rows),
                                        work.rows + ragged);
    return llvm::divideCeil(
        llvm::SaturatingMultiply<uint64_t>(covered, columns), perWave);
  };
  RaggedRows ragged = RaggedRows::get(schedule.rows, work.groups);
  return (count(ragged.least) + count(ragged.most)) / 2;
}

static MatmulTileCost getTileCost(const MatmulSchedule &schedule,
                                  const MatmulWork &work,
                                  const TargetInfo &target) {
  double groups = work.groups;
  double columns = llvm::divideCeil(work.columns, schedule.columns);
  // A tile more than the mean needs, in half of all groups; one group is known.
  double isRagged = work.groups > 1 ? 0.5 : 0;
  double tiles, stages;
  double stageElements =
      static_cast<double>(kStageRowBytes) / work.elementBytes;
  if (work.forward) {
    tiles = std::ceil(work.rows / static_cast<double>(schedule.rows) +
                      isRagged * groups) *
            columns;
    stages = std::ceil(work.contraction / stageElements);
  } else {
    tiles = groups * llvm::divideCeil(work.rows, schedule.rows) * columns;
    // Groups end inside of a stage, after one of its four steps.
    stages = work.contraction / groups / stageElements + isRagged / 4;
  }
  MatmulTileCost result;
  result.schedule = schedule;
  result.tiles = toCount(tiles);
  result.tileTime = toCount(getTileTime(
      schedule, work, stages * getStageTime(schedule, work, target)));
  double waves = countWaves(schedule, work, target);
  result.waves = toCount(std::ceil(waves));
  result.tilesTime = toCount(waves * result.tileTime);
  double operands = static_cast<double>(work.rows) * work.contraction;
  double weights = static_cast<double>(work.columns) * work.contraction *
                   (work.forward ? groups : 1);
  double results = static_cast<double>(work.rows) * work.columns *
                   (work.forward ? 1 : groups);
  result.cost =
      estimateTraffic(toCount((operands + weights) * work.elementBytes +
                              results * work.resultBytes),
                      target);
  int64_t launch = estimateTraffic(0, target).time;
  result.trafficTime = result.cost.time - launch;
  result.cost.time =
      toCount(launch + std::max(result.tilesTime, result.trafficTime) +
              kOverlapLoss * std::min(result.tilesTime, result.trafficTime));
  return result;
}

SmallVector<MatmulTileCost> fp8moe::rankMatmulTiles(const MatmulWork &work,
                                                    const TargetInfo &target) {
  MatmulWork nominal = withNominalSizes(work);
  SmallVector<MatmulTileCost> tiles;
  for (const MatmulSchedule &schedule : enumerateSchedules(work, target))
    tiles.push_back(getTileCost(schedule, nominal, target));
  return tiles;
}

const MatmulTileCost &fp8moe::chooseMatmulTile(ArrayRef<MatmulTileCost> tiles) {
  return *llvm::min_element(
      tiles, [](const auto &a, const auto &b) { return a.cost < b.cost; });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

GemmTileAttr fp8moe::getMatmulTile(MLIRContext *context,
                                   const MatmulSchedule &schedule) {
  return GemmTileAttr::get(context, schedule.rows, schedule.columns,
                           schedule.stages, schedule.kind, schedule.raster);
}

MatmulSchedule fp8moe::getMatmulSchedule(GemmTileAttr tile) {
  return {tile.getSchedule(), tile.getRows(), tile.getColumns(),
          tile.getStages(), tile.getRaster()};
}

FailureOr<MatmulTileCost> fp8moe::requireMatmulTile(GroupedMatmulOp op,
                                                    const TargetInfo &target) {
  GemmTileAttr tile = op.getTileAttr();
  if (failed(tile.verifyFor(op, target)))
    return failure();
  MatmulWork work = getMatmulWork(op);
  MatmulSchedule schedule = getMatmulSchedule(tile);
  if (std::optional<std::string> reason =
          explainIllegal(schedule, work, target)) {
    GemmTileAttr best =
        getMatmulTile(op.getContext(),
                      chooseMatmulTile(rankMatmulTiles(work, target)).schedule);
    return op.emitOpError("has a tile that target ")
           << target.chip << " cannot run: " << *reason << "; use a smaller "
           << "one, such as " << best << ", or none";
  }
  return getTileCost(schedule, withNominalSizes(work), target);
}

std::string fp8moe::explainMatmulTile(const MatmulTileCost &tile) {
  return llvm::formatv("{0}: {1}, {2} tiles of {3:f1} us in {4} {5}",
                       stringifyGemmSchedule(tile.schedule.kind),
                       tile.tilesTime >= tile.trafficTime
                           ? "bound by multiplications"
                           : "bound by bandwidth",
                       tile.tiles, tile.tileTime / 1e6, tile.waves,
                       tile.waves == 1 ? "wave" : "waves");
}

std::optional<Cost> fp8moe::estimateMatmul(GroupedMatmulOp op,
                                           const TargetInfo &target) {
  if (!target.hasWarpgroupMatmul)
    return std::nullopt;
  MatmulWork work = getMatmulWork(op);
  if (GemmTileAttr tile = op.getTileAttr()) {
    MatmulSchedule schedule = getMatmulSchedule(tile);
    if (explainIllegal(schedule, work, target))
      return Cost::infinite();
    return getTileCost(schedule, withNominalSizes(work), target).cost;
  }
  return chooseMatmulTile(rankMatmulTiles(work, target)).cost;
}
