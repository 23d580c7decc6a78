//===- CDNATiles.cpp - Tiles of AMD's grouped matmul ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A tile takes, for each step of the contraction, the longer of its products
// and its loads from the second-level cache, and a part of what shared memory
// takes; then the wait for its first operands, and the time to write it:
// nothing else runs on the compute unit meanwhile, unless two workgroups fit,
// which then share the matrix cores. Tiles run in waves of as many as are
// resident. All waves, and moving every byte once, overlap.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/CDNATiles.h"

#include "Kernels/Matmul/CDNA/CDNACalibration.h"
#include "Kernels/Matmul/MatmulFamily.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Kernels/Model/Occupancy.h"
#include "fp8moe/Target/TargetInfo.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

/// Rows and columns of the tiles that are tried.
static constexpr std::pair<int64_t, int64_t> kTiles[] = {
    {256, 256}, {128, 256}, {128, 128}};
static constexpr double kPicoseconds = 1e12;

bool fp8moe::hasMfmaKernel(MatrixElement a, MatrixElement b,
                           const TargetInfo &target) {
  return target.multiplies(a, b, MatrixInstruction::Mfma) &&
         getCDNACalibration(target.chip);
}

CDNAMatmulConfig fp8moe::getCDNAMatmulConfig(int64_t rows, int64_t columns,
                                             const TargetInfo &target,
                                             bool blocksBeginWithGroups) {
  CDNAMatmulConfig config;
  config.rows = rows;
  config.columns = columns;
  config.edge = target.mfmaEdge;
  // A lane reads 32 bytes of each row and stage.
  config.stepBytes = 32 * CDNAMatmulConfig::kWaveLanes / config.edge;
  config.shiftsLines = blocksBeginWithGroups;
  config.loadsToShared =
      target.has(Feature::DirectSharedLoads) && !config.shiftsLines;
  config.dies = target.l2.dies;
  return config;
}

/// Sums of a tile of 256x256 leave registers for scales of blocks, or for masks
/// of chunks that are not all the contraction's, but not for both; nor for
/// scales and chunks on their way to shared memory. With stages of 128 bytes
/// they leave some for operands that are transposed, but not for masks at both
/// ends beside one.
static bool hasRegisters(const CDNAMatmulConfig &config,
                         const MatmulWork &work) {
  constexpr int64_t kMostSums = 256 * 256;
  bool hasBothMasks = !work.isMGrouped() && work.mnMajorA != work.mnMajorB;
  if (hasBothMasks && config.edge == 16 &&
      config.rows * config.columns == kMostSums)
    return false;
  bool hasMasks =
      ShapedType::isDynamic(work.contraction) ||
      work.contraction * work.elementBytes % CDNAMatmulConfig::kChunkBytes;
  return !work.hasBlockScales || !(hasMasks || config.shiftsLines) ||
         config.rows * config.columns < kMostSums;
}

/// Whether all threads load whole rows of both operands, and shared memory and
/// registers have room.
static bool isLegal(const CDNAMatmulConfig &config, const MatmulWork &work,
                    const TargetInfo &target) {
  return hasRegisters(config, work) &&
         config.getWaveRows() % config.edge == 0 &&
         config.getHalf(/*areRows=*/true) % config.getRowsPerRound() == 0 &&
         config.getHalf(/*areRows=*/false) % config.getRowsPerRound() == 0 &&
         config.getSharedBytes() <= target.sharedMemoryPerBlock;
}

static int64_t toCount(double value) {
  return static_cast<int64_t>(std::llround(value));
}

static MfmaTileCost getTileCost(const CDNAMatmulConfig &config,
                                const MatmulWork &work,
                                const TargetInfo &target) {
  const CDNACalibration &figures = *getCDNACalibration(target.chip);
  const Calibration &chip = *target.calibration;
  MfmaTileCost result;
  result.config = config;
  double groups = static_cast<double>(work.groups);
  double length = static_cast<double>(work.contraction);
  double rowTiles =
      std::ceil(static_cast<double>(work.rows) / config.rows) * groups;
  if (work.isMGrouped()) {
    // Each of several groups has a tile at least, and the last one half full.
    double mean = static_cast<double>(work.rows) / groups / config.rows;
    rowTiles = work.groups == 1 ? std::ceil(mean)
                                : std::ceil(groups * std::max(1.0, mean + 0.5));
  } else {
    length /= groups;
  }
  double tiles = rowTiles * llvm::divideCeil(work.columns, config.columns);
  double steps = std::ceil(length * work.elementBytes / config.stepBytes);

  double peak = (work.elementBytes == 1 ? *chip.fp8TFlops : *chip.bf16TFlops) *
                1e12 * *figures.sustainedRate / target.multiprocessors;
  bool isPingPong = config.getWaves() == 8;
  double share = isPingPong ? *figures.pingPongShare : *figures.plainShare;
  double products = 2.0 * config.rows * config.columns * config.stepBytes /
                    work.elementBytes / (peak * share);
  double cycle = 1 / (target.clockMHz * 1e6);
  double stageBytes = static_cast<double>(config.getStageBytes());
  double loads = static_cast<double>(config.getLoadedBytes()) /
                 *figures.cacheBytesPerCycle * cycle;
  // Each wave reads its rows and columns.
  double readBytes = static_cast<double>(
      config.getWaves() * 2 * config.stepBytes *
      (config.getWaveRows() + CDNAMatmulConfig::kWaveColumns));
  double shared = (readBytes / *figures.sharedReadPerCycle +
                   stageBytes / *figures.sharedWritePerCycle) *
                  cycle;
  double transposedBytes =
      static_cast<double>((work.mnMajorA ? config.rows : 0) +
                          (work.mnMajorB ? config.columns : 0)) *
      config.stepBytes;
  shared += transposedBytes / *figures.transposedPerCycle * cycle;
  double step = std::max(products, loads) + *figures.overlapLoss * shared;
  int64_t resident = std::max<int64_t>(
      1, countResidentBlocks(config.getThreads(), *figures.registers,
                             config.getSharedBytes(), target));
  double resultBytes = static_cast<double>(config.rows) * config.columns *
                       work.resultBytes * (work.accumulates ? 2 : 1);
  double write =
      resultBytes / (*chip.copyBandwidth * 1e9 / target.multiprocessors);
  // Workgroups that are resident together share the matrix cores; one writes or
  // fills while another multiplies.
  double exposed = (*figures.fillTime / kPicoseconds + write) / resident;
  double tileTime = steps * std::max(step, shared) + exposed;
  result.tileTime = toCount(tileTime * kPicoseconds);
  result.tiles = toCount(tiles);
  double waves = std::ceil(tiles / (target.multiprocessors * resident));
  result.tilesTime = toCount(waves * resident * tileTime * kPicoseconds);

  result.cost =
      estimateTraffic(toCount(work.countOperands() * work.elementBytes +
                              work.countResults() * work.resultBytes),
                      target);
  result.trafficTime = result.cost.time - *chip.launchTime;
  result.cost.time =
      *chip.launchTime + std::max(result.tilesTime, result.trafficTime);
  return result;
}

SmallVector<MfmaTileCost> fp8moe::rankMfmaTiles(const MatmulWork &work,
                                                const TargetInfo &target) {
  MatmulWork nominal = withNominalSizes(work);
  SmallVector<MfmaTileCost> tiles;
  for (auto [rows, columns] : kTiles) {
    CDNAMatmulConfig config = getCDNAMatmulConfig(
        rows, columns, target, work.hasBlockScales && !work.isMGrouped());
    if (isLegal(config, work, target))
      tiles.push_back(getTileCost(config, nominal, target));
  }
  return tiles;
}

/// The limits that decide a tile's time, for people.
static std::string explainCost(const MfmaTileCost &tile) {
  return llvm::formatv("{0}x{1}: {2}, {3} tiles of {4:f1} us", tile.config.rows,
                       tile.config.columns,
                       tile.tilesTime >= tile.trafficTime
                           ? "bound by multiplications"
                           : "bound by bandwidth",
                       tile.tiles, tile.tileTime / 1e6);
}

namespace {
class CDNAMatmulFamily : public MatmulFamily {
public:
  StringRef getName() const override { return "cdna_matmul"; }
  bool owns(TileAttrInterface tile) const override {
    return isa<MfmaTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    const auto &matmul = cast<MatmulWork>(work);
    return (!matmul.hasBlockScales || target.has(Feature::BlockScaledWaves)) &&
           hasMfmaKernel(matmul.a, matmul.b, target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    for (const MfmaTileCost &tile :
         rankMfmaTiles(cast<MatmulWork>(work), target))
      candidates.push_back(
          {this,
           MfmaTileAttr::get(context, tile.config.rows, tile.config.columns),
           tile.cost, explainCost(tile)});
  }
  /// A launch has blocks for each tile of the result, so there are no waves
  /// that the host could count.
  LogicalResult verifyTile(Operation *op, const KernelWork &work,
                           TileAttrInterface tile,
                           const TargetInfo &target) const override {
    unsigned tiles = cast<TiledOpInterface>(op).getTilesAttr().size();
    if (tiles != 1)
      return op->emitError("'")
             << op->getName() << "' has " << tiles << " tiles, but on target "
             << target.chip << " kernels have one for all sizes; remove all "
             << "but one, or 'tiles' and fp8moe-select-tiles chooses";
    return MatmulFamily::verifyTile(op, work, tile, target);
  }
  LogicalResult verify(Operation *operation,
                       const TargetInfo &target) const override {
    static_assert(kAlignment == CDNAMatmulConfig::kChunkBytes);
    auto op = cast<MatmulOpInterface>(operation);
    // Lines that are shifted begin anywhere.
    bool isShifted = hasBlockScales(op) && !op.isMGrouped();
    return verifyMatmulLayouts(op, isShifted ? 1 : kAlignment,
                               /*resultAlignment=*/1, target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelFamily, CDNAMatmulFamily)
