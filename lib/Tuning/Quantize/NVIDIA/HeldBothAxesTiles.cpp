//===- HeldBothAxesTiles.cpp - Both axes from tiles that are held ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of the kernel that reads its input once: four bytes an element of
// bf16. Where memory is fast for its multiprocessors, these are the limit, and
// a kernel for each axis takes less time although it moves six bytes.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Quantize/NVIDIA/HeldBothAxesTiles.h"

#include "Tuning/Quantize/NVIDIA/HeldBothAxesCalibration.h"
#include "Tuning/Quantize/QuantizeCandidates.h"
#include "Tuning/Quantize/QuantizeFamily.h"
#include "Tuning/Quantize/RescaledBothAxes.h"
#include "fp8moe/Target/Cards.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"

#include <cmath>
#include <limits>

namespace mlir::fp8moe {
const KernelFamily &getRescaledBothAxesFamily();
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Bytes of lines that should be on their way in a block: so many in all blocks
/// are what memory of 3 TB/s delivers in a microsecond.
static constexpr int64_t kRingBytes = 22 << 10;
/// Lines of a team in the ring: the one at hand, the next one, and some more.
static constexpr int64_t kLeastRounds = 2, kMostRounds = 6;
/// Tiles of a block: the one that is held and the next one, and no more than
/// these.
static constexpr int64_t kLeastTiles = 2, kMostTiles = 4;
/// Launches: magnitudes are cleared, and both axes quantized.
static constexpr int64_t kLaunches = 2;

namespace {
class HeldBothAxesFamily : public BothAxesFamily {
public:
  HeldBothAxesFamily()
      : BothAxesFamily("held_both_axes", QuantizeMethod::HeldBothAxes) {}

  SmallVector<QuantizeTileCost>
  getTiles(ArrayRef<QuantizeWork> works,
           const TargetInfo &target) const override;

  RangeAttr getRange(MLIRContext *context, ArrayRef<QuantizeWork> works,
                     const TargetInfo &target) const override;

  bool isWorthwhile(ArrayRef<QuantizeWork> works,
                    const TargetInfo &target) const override;

protected:
  StringRef describeReads(const QuantizeTileCost &) const override {
    return "read once, columns from the rows that shared memory holds";
  }
  StringRef getWorkTileName() const override { return "tiles"; }

private:
  bool isWorthwhileOn(const TargetInfo &card,
                      ArrayRef<QuantizeWork> works) const;
};
} // namespace

/// As many tiles as leave room for a ring, which then takes more.
static std::optional<HeldBothAxesTile> getTile(int64_t columns,
                                               const TargetInfo &target) {
  HeldBothAxesTile tile;
  tile.columns = columns;
  if (tile.getTeamWarps() > HeldBothAxesTile::kMostTeamWarps)
    return std::nullopt;
  const int64_t teams = tile.getTeams();
  for (tile.tiles = kMostTiles; tile.tiles >= kLeastTiles; --tile.tiles) {
    int64_t lines = llvm::divideCeil(kRingBytes, columns * 2);
    int64_t least = std::clamp<int64_t>(llvm::divideCeil(lines, teams),
                                        kLeastRounds, kMostRounds);
    for (int64_t rounds = kMostRounds; rounds >= least; --rounds) {
      tile.rowStages = rounds * teams;
      if (held_both_axes::SharedMemory(tile).end <= target.sharedMemoryPerBlock)
        return tile;
    }
  }
  return std::nullopt;
}

static int64_t getLaunchTime(const TargetInfo &target) {
  return kLaunches * estimateTraffic(0, target).time;
}

/// Picoseconds that multiprocessors take, whatever memory does.
static double getMultiprocessorTime(const HeldBothAxesTile &tile,
                                    const QuantizeWork &work,
                                    const TargetInfo &target,
                                    const HeldBothAxesCalibration &figures) {
  double blocks = std::max<int64_t>(target.multiprocessors, 1);
  double columns = tile.columns;
  double ofTile =
      std::max(*figures.tileTime + columns * *figures.columnTime,
               HeldBothAxesTile::kLines * columns * *figures.elementTime);
  double tiles = held_both_axes::countTiles(work.rows);
  double rounds = std::max(1.0, work.segments * tiles / blocks);
  // The first blocks of an expert that ends in the next round wait for it,
  // unless they hold more than two tiles: the more there are, the longer.
  if (tile.tiles > kLeastTiles || rounds == 1)
    return rounds * ofTile;
  double cut = 1 - std::floor(blocks / tiles) * tiles / blocks;
  return rounds * ofTile * (1 + *figures.cutExpertTime * cut * cut);
}

SmallVector<QuantizeTileCost>
HeldBothAxesFamily::getTiles(ArrayRef<QuantizeWork> works,
                             const TargetInfo &target) const {
  if (works.size() != 2 || works[0].jagged || works[0].inputBytes != 2 ||
      !canRescale(works[0], works[1], target))
    return {};
  const HeldBothAxesCalibration *calibration =
      getHeldBothAxesCalibration(target.chip);
  if (!calibration)
    return {};
  // Lines and results of all experts begin at whole chunks; of results the
  // launch asks for it.
  constexpr int64_t kAlignment = nvidia::kTensorMapAddressAlignment;
  int64_t stride = works[0].inputSegmentStride;
  if (!ShapedType::isDynamic(stride) &&
      stride % (kAlignment / works[0].inputBytes))
    return {};
  const int64_t mostLines = target.multiprocessors * HeldBothAxesTile::kLines;
  if (!ShapedType::isDynamic(works[0].rows) && works[0].rows > mostLines)
    return {};
  QuantizeWork columns = withNominalSizes(works[0]);
  columns.rows = std::min(columns.rows, mostLines);
  std::optional<HeldBothAxesTile> tile = getTile(columns.columns, target);
  if (!tile)
    return {};
  QuantizeTileCost result{};
  QuantizeConfig &config = result.config;
  config.kind = QuantizeConfig::OuterTransposing;
  config.method = QuantizeMethod::HeldBothAxes;
  config.threads = tile->getThreads();
  config.columnsPerBlock = 1;
  config.rowStages = tile->rowStages;
  config.heldTiles = tile->tiles;

  result.workTiles =
      columns.segments * held_both_axes::countTiles(columns.rows);
  result.residentWorkTiles = std::max<int64_t>(target.multiprocessors, 1);
  double elements =
      static_cast<double>(columns.segments) * columns.rows * columns.columns;
  double bytes = elements * (columns.inputBytes + 2);
  result.cost.bytes =
      static_cast<int64_t>(std::min<double>(bytes, kMostModelledBytes));
  result.trafficTime = estimateBytes(result.cost.bytes, target).time * 100 /
                       *calibration->speedPercent;
  result.latencyTime = static_cast<int64_t>(std::min<double>(
      getMultiprocessorTime(*tile, columns, target, *calibration),
      kMostModelledBytes));
  result.cost.time = getLaunchTime(target) + *calibration->fillTime +
                     std::max(result.trafficTime, result.latencyTime);
  return {result};
}

/// The cards on which a kernel for each axis, and rescaling, wait longer for
/// memory than this one for its multiprocessors. Where lengths are not known,
/// these decide.
RangeAttr HeldBothAxesFamily::getRange(MLIRContext *context,
                                       ArrayRef<QuantizeWork> works,
                                       const TargetInfo &target) const {
  if (ShapedType::isDynamic(getMeanLength(works[0])))
    return BothAxesFamily::getRange(context, works, target);
  const HeldBothAxesCalibration &calibration =
      *getHeldBothAxesCalibration(target.chip);
  QuantizeWork columns = withNominalSizes(works[0]);
  double launches = getLaunchTime(target);
  // Of an unknown number of experts there are many.
  double fill =
      ShapedType::isDynamic(works[0].segments) ? 0 : *calibration.fillTime;
  double time = launches + fill + getTiles(works, target).front().latencyTime;
  // Another one takes `traffic` for memory on the target's card, and `fixed`
  // besides: as long as this one where memory has so much of that one's speed.
  double least = std::numeric_limits<double>::infinity();
  auto compareWith = [&](double traffic, double fixed) {
    if (fixed < time)
      least = std::min(least, traffic / (time - fixed));
  };
  double peak = target.peakMemoryBandwidth * 1e9;
  double apartBytes = static_cast<double>(columns.segments) * columns.rows *
                      columns.columns * 2 * (columns.inputBytes + 1);
  compareWith(apartBytes / peak * 1e12 * 100 / *calibration.apartPercent,
              launches);
  const auto &rescaled = cast<BothAxesFamily>(getRescaledBothAxesFamily());
  for (const QuantizeTileCost &tile : rescaled.getTiles(works, target))
    compareWith(tile.trafficTime, tile.cost.time - tile.trafficTime);
  // The model knows two or three digits. Drivers say 0.3% more of an H200 and
  // an H100 than data sheets do, and no step lies between.
  constexpr int64_t kStep = 500;
  double bound = least * peak / 1e6 / target.multiprocessors;
  auto steps =
      static_cast<int64_t>(std::min<double>(bound, kMostModelledBytes) / kStep);
  return RangeAttr::get(context, Quantity::MultiprocessorBandwidth,
                        /*above=*/0, (steps + 1) * kStep);
}

/// Few experts take less time where columns are made in a launch of their own.
bool HeldBothAxesFamily::isWorthwhileOn(const TargetInfo &card,
                                        ArrayRef<QuantizeWork> works) const {
  // A card of fewer multiprocessors holds fewer lines.
  SmallVector<QuantizeTileCost> tiles = getTiles(works, card);
  if (tiles.empty() || !BothAxesFamily::isWorthwhile(works, card))
    return false;
  SmallVector<QuantizeTileCost> rescaled =
      cast<BothAxesFamily>(getRescaledBothAxesFamily()).getTiles(works, card);
  return rescaled.empty() || tiles.front().cost < rescaled.front().cost;
}

/// On any card of the chip: the range says on which.
bool HeldBothAxesFamily::isWorthwhile(ArrayRef<QuantizeWork> works,
                                      const TargetInfo &target) const {
  if (ShapedType::isDynamic(getMeanLength(works[0])))
    return BothAxesFamily::isWorthwhile(works, target);
  return llvm::any_of(knownCards(), [&](const CardInfo &card) {
    return card.info.chip == target.chip && isWorthwhileOn(card.info, works);
  });
}

namespace mlir::fp8moe {
const KernelFamily &getHeldBothAxesFamily() {
  static const HeldBothAxesFamily family;
  return family;
}
} // namespace mlir::fp8moe
