//===- HopperAlternatives.cpp - Tiles for any number of rows --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Where an M-grouped matmul has few waves of tiles, the last one may be nearly
// empty, and a tile of another size that leaves less of it is faster, although
// its multiplications are slower. Which one that is changes with every few
// rows. So a few kernels are built, and the host, which knows the rows, works
// out the waves of each (Launch.cpp).
//
// A K-grouped matmul's tiles do not depend on the number of tokens.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

#include <cassert>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

/// Each kernel takes time to compile and space in the artifact.
static constexpr size_t kMaxAlternatives = 3;
/// How much time another kernel must save, in the geometric mean of the numbers
/// of rows below.
static constexpr double kLeastGain = 0.005;
/// Numbers of rows that are looked at, at least so many of them for each group,
/// as weights bound what is less; steps of an eleventh double them every eight.
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

  /// The host compares the times of tiles only; traffic is the same for all.
  const WgmmaTileCost *getBetter(size_t tile) const {
    const WgmmaTileCost *other = &tiles[tile];
    return !chosen || other->tilesTime < chosen->tilesTime ? other : chosen;
  }
};
} // namespace

/// The tiles among which the number of rows decides. The host counts waves: not
/// what it costs to add the parts of a split contraction, nor whether a tile is
/// good for one wave only.
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

/// The mean logarithm of the time when `tile` is one more alternative.
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
