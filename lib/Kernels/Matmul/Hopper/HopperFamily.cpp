//===- HopperFamily.cpp - Tiles and choices of matmuls on Hopper ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "Kernels/Matmul/MatmulFamily.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Target/NVIDIA.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cassert>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class HopperMatmulFamily : public MatmulFamily {
public:
  StringRef getName() const override { return "hopper_matmul"; }
  bool owns(TileAttrInterface tile) const override {
    return isa<WgmmaTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    const auto &matmul = cast<MatmulWork>(work);
    return !matmul.hasBlockScales && hasWgmmaKernel(matmul.a, matmul.b, target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  LogicalResult verify(Operation *op, const TargetInfo &target) const override {
    static_assert(kAlignment == nvidia::kTensorMapAddressAlignment);
    return verifyMatmulLayouts(cast<MatmulOpInterface>(op), kAlignment,
                               kAlignment, target);
  }

  LogicalResult verifyTile(Operation *op, const KernelWork &work,
                           TileAttrInterface tile,
                           const TargetInfo &target) const override {
    return verifyWgmmaTile(op, cast<MatmulWork>(work),
                           cast<WgmmaTileAttr>(tile), target);
  }
  KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                          const TargetInfo &target) const override;
  Cost predict(const MatmulWork &work, TileAttrInterface tile,
               const TargetInfo &target) const override {
    return predictWgmmaTile(work, cast<WgmmaTileAttr>(tile), target);
  }
  std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                      const TargetInfo &target) const override;

protected:
  bool takesRowsOf(int64_t size, Type elementType) const override {
    return isAlignedPitch(size, elementType);
  }
};
} // namespace

void HopperMatmulFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const WgmmaTileCost &tile :
       rankWgmmaTiles(cast<MatmulWork>(work), target))
    candidates.push_back({this, getWgmmaTile(context, tile.config), tile.cost,
                          explainWgmmaTile(tile)});
}

//===----------------------------------------------------------------------===//
// Alternatives
//
// Where an M-grouped matmul has few waves of tiles, the last one may be nearly
// empty, and a tile of another size that leaves less of it is faster, although
// its multiplications are slower. Which one that is changes with every few
// rows. So a few kernels are built, and the host, which knows the rows, works
// out the waves of each (Launch.cpp).
//
// A K-grouped matmul's tiles do not depend on the number of tokens.
//===----------------------------------------------------------------------===//

/// Each kernel takes time to compile and space in the artifact.
static constexpr size_t kMaxAlternatives = 3;
/// Part of the time that another kernel must save, in the geometric mean over
/// the numbers of rows below.
static constexpr double kLeastGain = 0.005;
/// The numbers of rows that alternatives are compared at. They have at least
/// kFewestGroupRows for each group, as fewer are bound by reading weights.
/// Steps of an eleventh double them every eight.
static constexpr int64_t kFewestRows = 1024;
static constexpr int64_t kFewestGroupRows = 256;
static constexpr int64_t kMostRows = 131072;
static constexpr int64_t kRowsSteps = 11;

namespace {
/// The predicted times of all tiles for one number of rows, and the time of the
/// best tile among the alternatives.
struct RowsCase {
  SmallVector<WgmmaTileCost> tiles;
  const WgmmaTileCost *chosen = nullptr;

  /// Returns the faster of the chosen alternative and `tile`. The host compares
  /// only the times of tiles, as traffic is the same for all.
  const WgmmaTileCost *getBetter(size_t tile) const {
    const WgmmaTileCost *other = &tiles[tile];
    return !chosen || other->tilesTime < chosen->tilesTime ? other : chosen;
  }
};
} // namespace

/// Returns the tiles that a dynamic number of rows chooses among. Split-K and
/// single-wave tiles are excluded: the host counts waves, and so can judge
/// neither.
static SmallVector<WgmmaTileCost> rankWholeTiles(const MatmulWork &work,
                                                 const TargetInfo &target) {
  SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, target);
  llvm::erase_if(tiles, [](const WgmmaTileCost &tile) {
    return tile.config.splits > 1 || isForSingleWaves(tile.config);
  });
  return tiles;
}

static SmallVector<RowsCase> getCases(MatmulWork work,
                                      const TargetInfo &target) {
  SmallVector<RowsCase> cases;
  int64_t groups = ShapedType::isDynamic(work.groups)
                       ? kNominalSegments
                       : std::min(work.groups, kMostModelledSize);
  int64_t fewest = std::max(kFewestRows, kFewestGroupRows * groups);
  // With very many groups one case is left.
  int64_t most = std::max(kMostRows, fewest);
  for (int64_t rows = fewest; rows <= most; rows += rows / kRowsSteps) {
    work.rows = rows;
    cases.push_back({rankWholeTiles(work, target)});
    assert(cases.back().tiles.size() == cases.front().tiles.size() &&
           "a number of rows has other tiles");
  }
  return cases;
}

/// Returns the mean logarithm of the time with `tile` as one more alternative.
static double getMeanTime(ArrayRef<RowsCase> cases, size_t tile) {
  double sum = 0;
  for (const RowsCase &entry : cases)
    sum += std::log(static_cast<double>(entry.getBetter(tile)->cost.time));
  return sum / static_cast<double>(cases.size());
}

SmallVector<WgmmaTileCost, 1>
fp8moe::getWgmmaAlternatives(const MatmulWork &work, const TargetInfo &target) {
  if (!work.isMGrouped() || !ShapedType::isDynamic(work.rows))
    return {chooseCandidate(rankWgmmaTiles(work, target))};

  SmallVector<WgmmaTileCost> tiles = rankWholeTiles(work, target);
  // All lists of tiles have one order. The best tile by itself comes first, the
  // others are added one by one.
  SmallVector<RowsCase> cases = getCases(work, target);
  assert(cases.front().tiles.size() == tiles.size() &&
         "known rows have other tiles");
  SmallVector<WgmmaTileCost, 1> alternatives;
  double bound = std::numeric_limits<double>::infinity();
  while (alternatives.size() < kMaxAlternatives) {
    std::optional<size_t> better;
    for (size_t tile : llvm::seq(tiles.size()))
      if (double time = getMeanTime(cases, tile); time < bound) {
        bound = time;
        better = tile;
      }
    if (!better)
      break;
    for (RowsCase &entry : cases)
      entry.chosen = entry.getBetter(*better);
    alternatives.push_back(tiles[*better]);
    bound -= kLeastGain;
  }
  return alternatives;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// Picoseconds in a unit of a wave's time. Finer differences are not
/// significant, and products on the host must not overflow.
static constexpr int64_t kWaveUnit = 1000;

KernelChoiceAttr HopperMatmulFamily::choose(MLIRContext *context,
                                            const MatmulWork &work,
                                            const TargetInfo &target) const {
  SmallVector<WgmmaTileCost, 1> tiles = getWgmmaAlternatives(work, target);
  if (tiles.size() == 1)
    return KernelChoiceAttr::get(context,
                                 getWgmmaTile(context, tiles.front().config));
  SmallVector<AlternativeAttr> alternatives;
  for (const WgmmaTileCost &tile : tiles)
    alternatives.push_back(AlternativeAttr::get(
        context, getWgmmaTile(context, tile.config), RangeAttr(),
        std::clamp<int64_t>(tile.tileTime / kWaveUnit, 1, kMostWave)));
  return KernelChoiceAttr::get(context, alternatives, /*leastWaves=*/true);
}

/// "by the number of rows, the least of waves times the time of a tile:
/// 128x128 ping_pong (53.6 us), 64x256 ping_pong (57.0 us)".
static std::string explainLeastWaves(KernelChoiceAttr choice) {
  std::string text =
      "by the number of rows, the least of waves times the time of a tile: ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(choice.getEntries(), os, [&](AlternativeAttr entry) {
    auto tile = cast<WgmmaTileAttr>(entry.getTile());
    os << llvm::formatv(
        "{0}x{1} {2} ({3:f1} us)", tile.getRows(), tile.getColumns(),
        stringifyWgmmaSchedule(tile.getSchedule()), entry.getWave() / 1e3);
  });
  return text;
}

std::string HopperMatmulFamily::explain(const MatmulWork &work,
                                        KernelChoiceAttr choice,
                                        const TargetInfo &target) const {
  TileAttrInterface tile = getOnlyTile(choice);
  if (!tile)
    return explainLeastWaves(choice);
  return explainTile(work, tile, target, [](TileAttrInterface preferred) {
    auto wgmma = cast<WgmmaTileAttr>(preferred);
    return llvm::formatv("{0}x{1}", wgmma.getRows(), wgmma.getColumns()).str();
  });
}

FP8MOE_DEFINE_ROW(KernelFamily, HopperMatmulFamily)
