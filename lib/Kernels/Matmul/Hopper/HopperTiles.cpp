//===- HopperTiles.cpp - Tiles of Hopper's grouped matmul -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The cost model of a grouped matmul. The kernel is persistent: one block for
// each multiprocessor loops over tiles.
//
//   time      one launch + the longer of tiles and traffic + a part of the
//             other one
//   tiles     waves * time of a tile
//   tile      stages of the contraction * time of a stage, and what the
//             schedule cannot hide of writing the result
//   stage     wgmmas at the sustained rate, which falls with the bytes that a
//             tile reads per wgmma. It falls further when shared memory or the
//             L2 cache is the limit (rows of some lengths straddle its lines)
//   waves     tiles / multiprocessors, rounded up. A group's last tile along
//             the rows is half full in expectation. The total varies: waves are
//             the mean of two cases. K-grouped, waves are weighted between
//             groups one after another and all groups at once
//   traffic   bytes of operands and result / speed of a copy
//
// With split-K a dense matmul has a tile for each split, and a second launch
// that reads all products and writes the result.
//
// The model's figures for a chip are in HopperCalibration.h. The tiles that
// it chooses for the shapes of
// unittests/Kernels/Matmul/Hopper/HopperTilesTest.cpp take 0.5% more time than
// the best ones in the geometric mean, 5.5% at worst.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "Kernels/Matmul/Hopper/HopperCalibration.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "fp8moe/Target/NVIDIA.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::fp8moe;

using nvidia::kSwizzleRowBytes;
using nvidia::kWgmmaRows;

//===----------------------------------------------------------------------===//
// Limits of the kernels and of the chip
//===----------------------------------------------------------------------===//

/// Tile widths to consider. Narrower tiles read more than the bandwidth of
/// shared memory.
static constexpr int64_t kTileColumns[] = {64, 96, 128, 160, 192, 256};
/// Tile widths only for results of a single wave, which they may fill better.
/// Their store boxes have rows of 32 or 64 bytes. Where tiles follow each
/// other, an H100 loses up to a third by such stores (8192x8192 in bf16). (With
/// promoted accumulation some need too many registers.)
static constexpr int64_t kSingleWaveColumns[] = {112, 144, 224, 240};
/// Contractions of at most so many bytes are limited by stores. Bands are then
/// one tile high (raster 1), so that neighbouring blocks write whole rows. That
/// is 1.05 to 1.15 times as fast as bands of four on an H100 and an H200. At
/// 1024 bytes it is 3% slower on the H100, as each band reads all of B.
static constexpr int64_t kShortContractionBytes = 512;
/// Rows of tiles in a band (raster) of M-grouped FP8 matmuls with wide results:
/// four rows of tiles are more than one wave. The values are for fast PingPong
/// and for promoted Cooperative tiles, 0.99 to 1.03 times as fast as bands of
/// four on H100s (docs/lab/measurements.md, "Bands, lines and the L2 cache").
/// Others were not measured.
static constexpr int64_t kWideFastRaster = 8, kWidePromotedRaster = 12;
/// Bytes of an L2 cache line, as many as a row of a stage has.
static constexpr int64_t kLineBytes = 128;
static_assert(kLineBytes == kSwizzleRowBytes);
/// Split-K factors to consider for dense matmuls.
static constexpr int64_t kSplits[] = {2, 4, 8, 16, 32};
/// Most stages. More do not hide more latency.
static constexpr int64_t kMaxStages = 8;

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

HopperMatmulMemory HopperMatmulMemory::get(const HopperMatmulConfig &config) {
  HopperMatmulMemory memory;
  memory.a = 0;
  memory.b = memory.a + config.stages * config.getStageBytes(/*isA=*/true);
  memory.staging =
      memory.b + config.stages * config.getStageBytes(/*isA=*/false);
  memory.scales = memory.staging + HopperMatmulConfig::kConsumers *
                                       nvidia::kWarpgroupWarps * 2 *
                                       kHopperStagingBytes;
  int64_t lines = config.getConsumerRows() + config.columns;
  memory.barriers = memory.scales + HopperMatmulConfig::kConsumers * lines *
                                        static_cast<int64_t>(sizeof(float));
  memory.total = memory.barriers + config.stages * nvidia::kStageBarrierBytes;
  return memory;
}

namespace {
struct Chip {
  const TargetInfo &target;
  const HopperCalibration &figures;

  /// Returns the figures of a chip. Requires that it supports the kernel.
  static Chip get(const TargetInfo &target) {
    return {target, *getHopperCalibration(target.chip)};
  }
};
} // namespace

bool fp8moe::hasWgmmaKernel(MatrixElement a, MatrixElement b,
                            const TargetInfo &target) {
  return target.multiplies(a, b, MatrixInstruction::Wgmma) &&
         target.has(Feature::TensorMaps | Feature::RegisterReallocation) &&
         getHopperCalibration(target.chip);
}

/// Returns the registers that a consumer's thread needs.
static int64_t countRegisters(const HopperMatmulConfig &config,
                              const MatmulWork &work, const Chip &chip) {
  int64_t blocks = config.getConsumerRows() / kWgmmaRows;
  int64_t perBlock = config.columns / 2;
  // Products that are not added yet are gone when the result is written.
  int64_t loop =
      (blocks + work.promoted) * perBlock + *chip.figures.loopRegisters;
  // Addends of f32 are not loaded.
  bool loadsAddend = work.accumulates && work.resultBytes == 2;
  int64_t epilogue = blocks * perBlock + *chip.figures.epilogueRegisters +
                     (loadsAddend ? *chip.figures.addendRegisters : 0);
  return std::max(loop, epilogue);
}

/// Explains why a tile is not legal, or returns none.
static std::optional<std::string>
explainIllegal(const HopperMatmulConfig &config, const MatmulWork &work,
               const Chip &chip) {
  if (int64_t box = kSwizzleRowBytes / work.elementBytes;
      work.mnMajorB && config.columns % box)
    return llvm::formatv("the second operand is contiguous along its columns, "
                         "which takes tiles of whole boxes of {0} of them, "
                         "found {1}",
                         box, config.columns);
  if (config.splits > 1 && !work.dense)
    return std::string("only the contraction of a dense matmul is split");
  int64_t registers = countRegisters(config, work, chip);
  int64_t limit = HopperMatmulConfig::kConsumerRegisters;
  if (registers > limit)
    return llvm::formatv("a thread needs {0} registers for its accumulators "
                         "and what goes with them, it has {1}",
                         registers, limit);
  int64_t bytes = HopperMatmulMemory::get(config).total;
  if (bytes > chip.target.sharedMemoryPerBlock)
    return llvm::formatv("it takes {0} bytes of shared memory, a block has {1}",
                         bytes, chip.target.sharedMemoryPerBlock);
  return std::nullopt;
}

/// Returns `config` with as many stages as fit, at least two.
static HopperMatmulConfig withMostStages(HopperMatmulConfig config,
                                         const Chip &chip) {
  for (config.stages = kMaxStages; config.stages > 2; --config.stages)
    if (HopperMatmulMemory::get(config).total <=
        chip.target.sharedMemoryPerBlock)
      break;
  return config;
}

bool fp8moe::isForSingleWaves(const HopperMatmulConfig &config) {
  return llvm::is_contained(kSingleWaveColumns, config.columns);
}

/// Whether the tiles of a dense matmul are known to be a single wave.
static bool isSingleWave(const HopperMatmulConfig &config,
                         const MatmulWork &work, const Chip &chip) {
  if (ShapedType::isDynamic(work.rows) || ShapedType::isDynamic(work.columns))
    return false;
  int64_t tiles = llvm::SaturatingMultiply<uint64_t>(
      llvm::divideCeil(work.rows, config.rows),
      llvm::divideCeil(work.columns, config.columns) * config.splits);
  return tiles <= chip.target.multiprocessors;
}

static bool isBoundByWriting(const MatmulWork &work) {
  return work.isMGrouped() && ShapedType::isStatic(work.contraction) &&
         work.contraction <= kShortContractionBytes / work.elementBytes;
}

/// Whether four rows of tiles are more than one wave, and higher bands were
/// measured for this kind of tile.
static bool hasWideBands(const HopperMatmulConfig &config,
                         const MatmulWork &work, const Chip &chip) {
  WgmmaSchedule measured =
      work.promoted ? WgmmaSchedule::Cooperative : WgmmaSchedule::PingPong;
  return config.kind == measured && work.isMGrouped() && !work.dense &&
         work.elementBytes == 1 && ShapedType::isStatic(work.columns) &&
         llvm::divideCeilSigned(work.columns, config.columns) * config.raster >
             chip.target.multiprocessors;
}

/// Whether rows of a tile's store boxes are shorter than 128 bytes.
static bool hasNarrowBoxes(const HopperMatmulConfig &config,
                           const MatmulWork &work) {
  return config.columns * work.resultBytes % kLineBytes;
}

static SmallVector<HopperMatmulConfig> enumerateConfigs(const MatmulWork &work,
                                                        const Chip &chip) {
  SmallVector<HopperMatmulConfig> configs;
  auto add = [&](WgmmaSchedule kind, int64_t rows) {
    auto addColumns = [&](ArrayRef<int64_t> widths) {
      for (int64_t columns : widths) {
        HopperMatmulConfig config;
        config.kind = kind;
        config.rows = rows;
        config.columns = columns;
        if (isBoundByWriting(work))
          config.raster = 1;
        else if (hasWideBands(config, work, chip))
          config.raster = work.promoted ? kWidePromotedRaster : kWideFastRaster;
        config = withMostStages(config, chip);
        if (!explainIllegal(config, work, chip))
          configs.push_back(config);
      }
    };
    addColumns(kTileColumns);
    if (work.dense && !work.promoted)
      addColumns(kSingleWaveColumns);
  };
  // The tensor cores would be idle while the one with the turn adds products.
  if (!work.promoted) {
    add(WgmmaSchedule::PingPong, 128);
    add(WgmmaSchedule::PingPong, 64);
  }
  add(WgmmaSchedule::Cooperative, 128);
  add(WgmmaSchedule::Cooperative, 256);
  if (work.dense)
    for (HopperMatmulConfig config : SmallVector<HopperMatmulConfig>(configs))
      for (int64_t splits : kSplits) {
        config.splits = splits;
        configs.push_back(config);
      }
  llvm::erase_if(configs, [&](const HopperMatmulConfig &config) {
    if (isBoundByWriting(work) && hasNarrowBoxes(config, work))
      return true;
    return isForSingleWaves(config) && !isSingleWave(config, work, chip);
  });
  return configs;
}

//===----------------------------------------------------------------------===//
// Predicted time
//===----------------------------------------------------------------------===//

/// Returns the mean number of L2 lines that a row of a stage touches, with rows
/// `pitch` elements apart.
static double countLinesPerRow(int64_t pitch, int64_t elementBytes) {
  int64_t beyondLine = pitch % kLineBytes * elementBytes;
  return 2 - static_cast<double>(std::gcd(beyondLine, kLineBytes)) / kLineBytes;
}

/// Returns the slowdown of a stage whose rows straddle L2 lines. It grows with
/// the bytes of lines read in a cycle of the tensor cores, beyond both
/// lineBytesHidden and those of whole lines (operandSlowdown accounts for
/// these).
static double getStraddlingSlowdown(const HopperMatmulConfig &config,
                                    const MatmulWork &work, const Chip &chip) {
  // Bytes of both operands, as productBytesPerCycle.
  double bytesPerCycle = *chip.figures.productBytesPerCycle;
  double linesA =
      countLinesPerRow(work.getPitch(/*isA=*/true), work.elementBytes);
  double linesB =
      countLinesPerRow(work.getPitch(/*isA=*/false), work.elementBytes);
  double whole = bytesPerCycle * (1.0 / config.columns + 1.0 / config.rows);
  double read =
      bytesPerCycle * (linesA / config.columns + linesB / config.rows);
  double hidden = std::max(whole, *chip.figures.lineBytesHidden);
  return *chip.figures.lineSlowdown * std::max(0.0, read / hidden - 1);
}

/// Returns the picoseconds of one stage.
static double getStageTime(const HopperMatmulConfig &config,
                           const MatmulWork &work, const Chip &chip) {
  int64_t elementBytes = work.elementBytes;
  double teraflops = elementBytes == 1 ? *chip.target.calibration->fp8TFlops
                                       : *chip.target.calibration->bf16TFlops;
  double flops =
      2.0 * config.rows * config.columns * kSwizzleRowBytes / elementBytes;
  double rows = config.rows, columns = config.columns;
  double reads = kWgmmaRows * (1 + kWgmmaRows / columns);
  double copies = *chip.figures.productBytesPerCycle * (1 / rows + 1 / columns);
  double excess =
      std::max(0.0, reads + copies - *chip.figures.sharedBytesHidden);
  double slowdown = 1 +
                    *chip.figures.operandSlowdown * (1 / rows + 1 / columns) +
                    *chip.figures.sharedSlowdown * excess /
                        *chip.figures.sharedBytesPerCycle +
                    getStraddlingSlowdown(config, work, chip);
  double time = flops * slowdown * chip.target.multiprocessors /
                (teraflops * *chip.figures.sustainedRate);
  if (config.kind == WgmmaSchedule::Cooperative)
    time *= *chip.figures.sharedStage;
  if (!work.promoted) {
    bool isAlone = config.kind == WgmmaSchedule::PingPong;
    bool isOneBlock = config.getConsumerRows() == kWgmmaRows;
    return time * (isAlone && isOneBlock ? *chip.figures.fewInstructions : 1);
  }
  if (config.kind == WgmmaSchedule::PingPong)
    return time * *chip.figures.promotedAlone;
  return time * *chip.figures.promotedShared *
         (1 + *chip.figures.promotedGap / columns);
}

/// Returns the picoseconds of a tile whose wgmmas take `multiply`.
static double getTileTime(const HopperMatmulConfig &config,
                          const MatmulWork &work, double multiply,
                          const Chip &chip) {
  double elements =
      static_cast<double>(config.rows) * config.columns * work.resultBytes / 2;
  if (config.kind == WgmmaSchedule::Cooperative)
    return multiply + *chip.figures.exposedTime * elements;
  // A warpgroup multiplies and writes while the other does the same.
  double narrow = hasNarrowBoxes(config, work) ? *chip.figures.narrowWrite : 1;
  double write = *chip.figures.writeTime * elements * narrow;
  return *chip.figures.turnTime + std::max(multiply, (multiply + write) / 2);
}

/// Rounds down to an integer, clamped to leave room for additions in 64 bits.
static int64_t toCount(double value) {
  constexpr int64_t kMost = int64_t(1) << 61;
  return value < static_cast<double>(kMost) ? static_cast<int64_t>(value)
                                            : kMost;
}

/// Returns the expected number of waves.
static double countWaves(const HopperMatmulConfig &config,
                         const MatmulWork &work, const Chip &chip) {
  int64_t multiprocessors = chip.target.multiprocessors;
  if (work.isMGrouped())
    return countDoubledWaves<int64_t>(config, work.rows, work.columns,
                                      work.groups, multiprocessors) /
           2.0;
  int64_t tiles = llvm::divideCeil(work.rows, config.rows) *
                  llvm::divideCeil(work.columns, config.columns);
  double apart = static_cast<double>(work.groups) *
                 static_cast<double>(llvm::divideCeil(tiles, multiprocessors));
  double together = llvm::divideCeil(
      llvm::SaturatingMultiply<uint64_t>(work.groups, tiles), multiprocessors);
  return together + *chip.figures.groupsApart * (apart - together);
}

static WgmmaTileCost getTileCost(const HopperMatmulConfig &config,
                                 const MatmulWork &work, const Chip &chip) {
  double groups = work.groups;
  double columns = llvm::divideCeil(work.columns, config.columns);
  // A group's last tile, or last step of a stage, is partly filled: on average
  // half of one is wasted. The size of a single group is known.
  double isRagged = work.groups > 1 ? 0.5 : 0;
  double tiles, stages;
  double stageElements =
      static_cast<double>(kSwizzleRowBytes) / work.elementBytes;
  if (work.isMGrouped()) {
    tiles = std::ceil(work.rows / static_cast<double>(config.rows) +
                      isRagged * groups) *
            columns;
    stages = std::ceil(work.contraction / stageElements / config.splits);
    tiles *= config.splits;
  } else {
    tiles = groups * llvm::divideCeil(work.rows, config.rows) * columns;
    // Groups end inside of a stage, after one of its four steps.
    stages = work.contraction / groups / stageElements + isRagged / 4;
  }
  WgmmaTileCost result;
  result.config = config;
  result.tiles = toCount(tiles);
  result.tileTime = toCount(getTileTime(
      config, work, stages * getStageTime(config, work, chip), chip));
  double waves = countWaves(config, work, chip);
  result.waves = toCount(std::ceil(waves));
  result.tilesTime = toCount(waves * result.tileTime);
  double resultBytes = work.countResults() * work.resultBytes;
  double productBytes = work.countResults() * config.splits * sizeof(float);
  result.cost =
      estimateTraffic(toCount(work.countOperands() * work.elementBytes +
                              (config.splits > 1 ? productBytes : resultBytes)),
                      chip.target);
  int64_t launch = *chip.target.calibration->launchTime;
  result.trafficTime = result.cost.time - launch;
  result.cost.time =
      toCount(launch + std::max(result.tilesTime, result.trafficTime) +
              *chip.figures.overlapLoss *
                  std::min(result.tilesTime, result.trafficTime));
  // The kernel that adds the parts. Its bytes count, as those of every copy.
  if (config.splits > 1)
    result.cost +=
        estimateTraffic(toCount(productBytes + resultBytes), chip.target);
  return result;
}

SmallVector<WgmmaTileCost> fp8moe::rankWgmmaTiles(const MatmulWork &work,
                                                  const TargetInfo &target) {
  Chip chip = Chip::get(target);
  MatmulWork nominal = withNominalSizes(work);
  SmallVector<WgmmaTileCost> tiles;
  for (const HopperMatmulConfig &config : enumerateConfigs(work, chip))
    tiles.push_back(getTileCost(config, nominal, chip));
  return tiles;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

WgmmaTileAttr fp8moe::getWgmmaTile(MLIRContext *context,
                                   const HopperMatmulConfig &config) {
  return WgmmaTileAttr::get(context, config.rows, config.columns, config.stages,
                            config.kind, config.raster, config.splits);
}

HopperMatmulConfig fp8moe::getHopperMatmulConfig(WgmmaTileAttr tile) {
  return {tile.getSchedule(), tile.getRows(),   tile.getColumns(),
          tile.getStages(),   tile.getRaster(), tile.getSplits()};
}

LogicalResult fp8moe::verifyWgmmaTile(Operation *op, const MatmulWork &work,
                                      WgmmaTileAttr tile,
                                      const TargetInfo &target) {
  std::optional<std::string> reason =
      explainIllegal(getHopperMatmulConfig(tile), work, Chip::get(target));
  if (!reason)
    return success();
  WgmmaTileAttr best = getWgmmaTile(
      op->getContext(), chooseCandidate(rankWgmmaTiles(work, target)).config);
  return op->emitOpError("has a tile that target ")
         << target.chip << " cannot run: " << *reason << "; use another "
         << "one, such as " << best << ", or none";
}

std::string fp8moe::explainWgmmaTile(const WgmmaTileCost &tile) {
  std::string parts;
  if (tile.config.splits > 1)
    parts = llvm::formatv(" with a {0}th of the contraction each",
                          tile.config.splits);
  return llvm::formatv("{0}: {1}, {2} tiles{6} of {3:f1} us in {4} {5}",
                       stringifyWgmmaSchedule(tile.config.kind),
                       tile.tilesTime >= tile.trafficTime
                           ? "bound by multiplications"
                           : "bound by bandwidth",
                       tile.tiles, tile.tileTime / 1e6, tile.waves,
                       tile.waves == 1 ? "wave" : "waves", parts);
}

Cost fp8moe::predictWgmmaTile(const MatmulWork &work, WgmmaTileAttr tile,
                              const TargetInfo &target) {
  Chip chip = Chip::get(target);
  HopperMatmulConfig config = getHopperMatmulConfig(tile);
  if (explainIllegal(config, work, chip))
    return Cost::infinite();
  return getTileCost(config, withNominalSizes(work), chip).cost;
}
