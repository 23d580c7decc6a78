//===- QuantizeAlternatives.cpp - Kernels to choose from at run time ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Where slices are contiguous in input and output (kind Inner) and their length
// is dynamic, a program has several kernels, each for a range of lengths. The
// ranges minimize the time lost against the best tile of each length, plus a
// price for each kernel. So neighbouring lengths with similar times share a
// kernel. Other kinds have the best tile for nominal sizes.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

/// Lengths at which alternatives may change.
static constexpr int64_t kLengths[] = {32,   128,  256,   512,   1024,  2048,
                                       4096, 8192, 12288, 24576, 65536, 131072};

/// Sum, over all lengths above, of the logarithm of the time that one more
/// kernel must save: one percent in the mean. Column-major inputs 512 to 8192
/// wide in 1 to 128 groups thus get up to four kernels. The model predicts that
/// these lose 0.8% to the best tile of each length (2026-11-22). Half of this
/// price would give up to six, and four times as much up to two, which lose 5%.
static constexpr double kKernelPrice = 0.01 * std::size(kLengths);
/// Most kernels of an operation, as each takes time to compile and space in the
/// artifact.
static constexpr size_t kMaxAlternatives = 4;

using Tiles = SmallVector<QuantizeTileCost>;

/// Returns `work` with a mean length between `limit` and the limit before it.
static QuantizeWork withTypicalLength(QuantizeWork work, int64_t limit) {
  int64_t typical = limit - limit / 4;
  work.rows = work.jagged ? typical * work.segments : typical;
  return work;
}

ArrayRef<int64_t> fp8moe::getTypicalLengths() { return kLengths; }

QuantizeWork fp8moe::withTypicalGroups(const QuantizeWork &known,
                                       QuantizeWork nominal, int64_t limit) {
  QuantizeWork typical = withTypicalLength(nominal, limit);
  if (known.jagged && ShapedType::isDynamic(known.segments)) {
    typical.rows = nominal.rows;
    typical.segments = std::max<int64_t>(nominal.rows / (limit - limit / 4), 1);
  }
  return typical;
}

namespace {
/// A division of the first lengths into ranges: its total loss, the index where
/// its last range begins, and the tile of that range.
struct Division {
  double loss = std::numeric_limits<double>::infinity();
  size_t begin = 0, tile = 0;
};
} // namespace

/// Returns the index of the tile chosen for each length, by dynamic programming
/// over ranges. `tiles` has the tiles of each length, all in the same order.
static SmallVector<size_t> chooseTiles(ArrayRef<Tiles> tiles) {
  size_t numLengths = tiles.size(), numTiles = tiles.front().size();
  assert(llvm::all_of(tiles,
                      [&](const Tiles &of) { return of.size() == numTiles; }) &&
         "a length has other tiles");
  SmallVector<double> bestTimes =
      llvm::map_to_vector(tiles, [](const Tiles &of) -> double {
        return chooseQuantizeTile(of).cost.time;
      });
  auto getLoss = [&](size_t length, size_t tile) {
    return std::log(tiles[length][tile].cost.time / bestTimes[length]);
  };
  // The best division into each number of ranges, by the number of lengths.
  SmallVector<Division> none(numLengths + 1);
  SmallVector<SmallVector<Division>> divisions(kMaxAlternatives + 1, none);
  divisions.front().front().loss = 0;
  for (size_t ranges : llvm::seq(kMaxAlternatives))
    for (size_t begin : llvm::seq(numLengths))
      for (size_t tile : llvm::seq(numTiles)) {
        double loss = divisions[ranges][begin].loss + kKernelPrice;
        for (size_t length = begin; length < numLengths; ++length) {
          loss += getLoss(length, tile);
          Division &best = divisions[ranges + 1][length + 1];
          if (loss < best.loss)
            best = {loss, begin, tile};
        }
      }
  auto *best =
      llvm::min_element(divisions, [](const auto &lhs, const auto &rhs) {
        return lhs.back().loss < rhs.back().loss;
      });
  size_t ranges = best - divisions.begin();
  SmallVector<size_t> chosen(numLengths);
  for (size_t end = numLengths; end > 0;) {
    const Division &last = divisions[ranges--][end];
    std::fill(chosen.begin() + last.begin, chosen.begin() + end, last.tile);
    end = last.begin;
  }
  return chosen;
}

/// Merges equal neighbours of `tiles`, one for each length, into ranges of
/// lengths.
static SmallVector<AlternativeAttr>
joinRanges(MLIRContext *context, ArrayRef<TileAttrInterface> tiles) {
  SmallVector<AlternativeAttr> alternatives;
  int64_t above = 0;
  for (auto [index, tile] : llvm::enumerate(tiles)) {
    bool isLast = index + 1 == tiles.size();
    if (!isLast && tiles[index + 1] == tile)
      continue;
    int64_t upTo = isLast ? kUnbounded : kLengths[index];
    RangeAttr range;
    if (above != 0 || !isLast)
      range = RangeAttr::get(context, Quantity::MeanLength, above, upTo);
    alternatives.push_back(
        AlternativeAttr::get(context, tile, range, /*wave=*/0));
    above = upTo;
  }
  return alternatives;
}

SmallVector<AlternativeAttr>
fp8moe::getQuantizeAlternatives(const QuantizeWork &work,
                                const TargetInfo &target, bool areGeneral) {
  bool isInner = getQuantizeKind(work) == QuantizeKind::Inner;
  bool isKnown = !ShapedType::isDynamic(getMeanLength(work));
  if (!isInner || isKnown) {
    Tiles tiles =
        rankQuantizeTiles(work, withNominalSizes(work), target, areGeneral);
    return {AlternativeAttr::get(work.context, chooseQuantizeTile(tiles).tile,
                                 RangeAttr(), /*wave=*/0)};
  }
  QuantizeWork nominal = withNominalSizes(work);
  // Others take no slices that are contiguous on both sides.
  SmallVector<Tiles> tiles = llvm::map_to_vector(kLengths, [&](int64_t length) {
    return rankQuantizeTiles(work, withTypicalLength(nominal, length), target,
                             /*areGeneral=*/true);
  });
  SmallVector<TileAttrInterface> chosen;
  for (auto [length, number] : llvm::enumerate(chooseTiles(tiles)))
    chosen.push_back(tiles[length][number].tile);
  return joinRanges(work.context, chosen);
}
