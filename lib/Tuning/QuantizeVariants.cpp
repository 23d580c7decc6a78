//===- QuantizeVariants.cpp - Kernels to choose from at run time ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Where the length of slices is only known at run time, a program has several
// kernels, each for a range of lengths. Lengths are divided so that the time
// that is lost to the best tile of each length is least, with a price for each
// kernel: neighbours that differ by little are one.
//
//===----------------------------------------------------------------------===//

#include "QuantizeCandidates.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

/// Lengths at which variants may change.
static constexpr int64_t kLengths[] = {32,   128,  256,   512,   1024,  2048,
                                       4096, 8192, 12288, 24576, 65536, 131072};

/// A kernel is worth so much time at one of the lengths above, in the
/// logarithm.
static constexpr double kKernelPrice = 0.12;

/// Where whole columns run for shorter slices they do so, too, if they are
/// predicted to take up to this times as long as others: ranges stay in one
/// piece, and groups of any sizes come at one speed.
static constexpr double kColumnsPrice = 1.05;

using Tiles = SmallVector<QuantizeTileCost>;

/// A length between a limit and the one before it.
static QuantizeWork withTypicalLength(QuantizeWork work, int64_t limit) {
  int64_t typical = limit - limit / 4;
  work.rows = work.jagged ? typical * work.segments : typical;
  return work;
}

/// For each length the number of its tile. `tiles` has those of each length,
/// the same ones in the same order.
static SmallVector<size_t> chooseTiles(ArrayRef<Tiles> tiles) {
  size_t numLengths = tiles.size(), numTiles = tiles.front().size();
  auto getLoss = [&](size_t length, size_t tile) {
    double best = chooseQuantizeTile(tiles[length]).cost.time;
    return std::log(tiles[length][tile].cost.time / best);
  };
  // The least loss of the first lengths, where the last of their ranges begins,
  // and its tile.
  struct Division {
    double loss = std::numeric_limits<double>::infinity();
    size_t begin = 0, tile = 0;
  };
  SmallVector<Division> divisions(numLengths + 1);
  divisions.front().loss = 0;
  for (size_t begin : llvm::seq(numLengths))
    for (size_t tile : llvm::seq(numTiles)) {
      double loss = divisions[begin].loss + kKernelPrice;
      for (size_t length = begin; length < numLengths; ++length) {
        loss += getLoss(length, tile);
        if (loss < divisions[length + 1].loss)
          divisions[length + 1] = {loss, begin, tile};
      }
    }
  SmallVector<size_t> chosen(numLengths);
  for (size_t end = numLengths; end > 0; end = divisions[end].begin)
    std::fill(chosen.begin() + divisions[end].begin, chosen.begin() + end,
              divisions[end].tile);
  return chosen;
}

/// One tile for each of the lengths, as ranges.
static SmallVector<QuantizeVariant>
joinRanges(ArrayRef<const QuantizeTileCost *> tiles) {
  auto getTile = [](const QuantizeTileCost &tile) {
    return std::tuple(tile.schedule.method, tile.schedule.threads,
                      tile.schedule.columnsPerBlock);
  };
  SmallVector<QuantizeVariant> variants;
  for (auto [length, tile] : llvm::zip_equal(kLengths, tiles)) {
    if (!variants.empty() && getTile(variants.back().tile) == getTile(*tile))
      variants.pop_back();
    variants.push_back({length, *tile});
  }
  variants.back().upTo = std::nullopt;
  return variants;
}

static SmallVector<QuantizeVariant> getVariants(const QuantizeWork &work,
                                                const TargetInfo &target,
                                                bool areGeneral) {
  bool areSlices = getQuantizeScheduleKind(work) == QuantizeSchedule::Slices;
  if (!areSlices || !ShapedType::isDynamic(getMeanLength(work))) {
    Tiles tiles = rankQuantizeTiles(work, target);
    if (areGeneral)
      llvm::erase_if(tiles, [](const QuantizeTileCost &entry) {
        return !entry.schedule.isGeneral();
      });
    return {{std::nullopt, chooseQuantizeTile(tiles)}};
  }
  QuantizeWork nominal = withNominalSizes(work);
  SmallVector<Tiles> general, columns;
  for (int64_t length : kLengths) {
    QuantizeWork typical = withTypicalLength(nominal, length);
    addTwoPassTiles(typical, target, general.emplace_back());
    addHeldTiles(typical, /*isLengthKnown=*/false, target, general.back());
    addColumnsTiles(work, typical, target, columns.emplace_back());
  }
  SmallVector<const QuantizeTileCost *> chosen;
  for (auto [length, number] : llvm::enumerate(chooseTiles(general))) {
    // Kernels that take whole columns do not replace others, which take what
    // is not aligned.
    bool areBefore = !chosen.empty() &&
                     chosen.back()->schedule.method == TileSchedule::Columns;
    chosen.push_back(&general[length][number]);
    double most = chosen.back()->cost.time * (areBefore ? kColumnsPrice : 1.0);
    for (const QuantizeTileCost &tile : columns[length])
      if (!areGeneral && tile.cost.time < most)
        chosen.back() = &tile;
  }
  return joinRanges(chosen);
}

SmallVector<QuantizeVariant>
fp8moe::getQuantizeVariants(const QuantizeWork &work,
                            const TargetInfo &target) {
  return getVariants(work, target, /*areGeneral=*/false);
}

SmallVector<QuantizeVariant>
fp8moe::getGeneralQuantizeVariants(const QuantizeWork &work,
                                   const TargetInfo &target) {
  return getVariants(work, target, /*areGeneral=*/true);
}
