//===- QuantizeChoice.cpp - Kernels of a quantization ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/LengthRange.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Least rows of a jagged group when layouts are compared for an unknown number
/// of tokens: more groups come with more tokens. The traffic of copies grows
/// with tokens and groups, that of short groups does not.
static constexpr int64_t kLeastNominalGroupRows = 128;

//===----------------------------------------------------------------------===//
// Along one axis
//===----------------------------------------------------------------------===//

KernelChoiceAttr fp8moe::chooseQuantizeKernels(const QuantizeWork &work,
                                               const TargetInfo &target) {
  SmallVector<AlternativeAttr> alternatives =
      getQuantizeAlternatives(work, target, /*areGeneral=*/false);
  if (!findKernelFamily(alternatives.front().getTile())->isGeneral())
    llvm::append_range(alternatives, getQuantizeAlternatives(
                                         work, target, /*areGeneral=*/true));
  return KernelChoiceAttr::get(work.context, alternatives);
}

KernelChoiceAttr fp8moe::completeQuantizeKernels(KernelChoiceAttr choice,
                                                 const QuantizeWork &work,
                                                 const TargetInfo &target) {
  if (takesEverything(choice))
    return choice;
  return appendAlternatives(
      choice, KernelChoiceAttr::get(
                  choice.getContext(),
                  getQuantizeAlternatives(work, target, /*areGeneral=*/true)));
}

bool fp8moe::mayBeInRange(RangeAttr range, const QuantizeWork &work,
                          const TargetInfo &target) {
  int64_t length = getMeanLength(work);
  if (ShapedType::isDynamic(length) || ShapedType::isDynamic(work.columns))
    return true;
  auto getL2Bytes = [&] { return target.l2.bytes; };
  RangeSizes<int64_t> sizes{work.columns, work.inputBytes, getL2Bytes};
  std::optional<int64_t> upTo = computeUpTo(range, sizes),
                         above = computeAbove(range, sizes);
  return (!upTo || length <= *upTo) && (!above || length > *above);
}

/// Returns the cost of the alternative that runs at the nominal length of
/// slices.
static Cost estimateChoice(const QuantizeWork &work, KernelChoiceAttr choice,
                           const TargetInfo &target) {
  SmallVector<QuantizeTileCost> tiles = rankQuantizeTiles(work, target);
  if (tiles.empty())
    return Cost::infinite();
  if (!choice)
    return chooseQuantizeTile(tiles).cost;
  QuantizeWork nominal = withNominalSizes(work);
  for (AlternativeAttr alternative : choice.getEntries()) {
    if (RangeAttr range = alternative.getRange();
        range && !mayBeInRange(range, nominal, target))
      continue;
    for (const QuantizeTileCost &tile : tiles)
      if (tile.tile == alternative.getTile())
        return tile.cost;
    break;
  }
  return Cost::infinite();
}

//===----------------------------------------------------------------------===//
// Along several axes
//===----------------------------------------------------------------------===//

KernelChoiceAttr fp8moe::getAxisChoice(KernelChoiceAttr choice,
                                       unsigned index) {
  if (!choice)
    return {};
  for (AlternativeAttr alternative : choice.getEntries())
    if (auto perAxis = dyn_cast<PerAxisAttr>(alternative.getTile()))
      return index < perAxis.getChoices().size()
                 ? cast<KernelChoiceAttr>(perAxis.getChoices()[index])
                 : KernelChoiceAttr();
  return choice;
}

int64_t fp8moe::estimateSource(const QuantizeWork &columns,
                               const TargetInfo &target) {
  if (!columns.sourceBytes)
    return 0;
  QuantizeWork nominal = withNominalSizes(columns);
  int64_t lines = nominal.rows * (nominal.jagged ? 1 : nominal.segments);
  int64_t bytes = *columns.sourceBytes + nominal.columns * nominal.inputBytes;
  return estimateTraffic(std::min(kMostModelledBytes / bytes, lines) * bytes,
                         target)
      .time;
}

Cost fp8moe::estimateWithSource(const QuantizeTileCost &tile,
                                const QuantizeWork &columns,
                                const TargetInfo &target) {
  Cost cost = tile.cost;
  if (!computesInput(tile.tile))
    cost.time += estimateSource(columns, target);
  return cost;
}

Cost fp8moe::estimateApart(ArrayRef<QuantizeWork> works,
                           const TargetInfo &target) {
  Cost sum;
  for (const QuantizeWork &work : works)
    sum += chooseQuantizeTile(rankQuantizeTiles(work, target)).cost;
  return sum;
}

std::optional<BothAxesAlternative>
fp8moe::findBothAxesTile(TileAttrInterface tile, ArrayRef<QuantizeWork> works,
                         const TargetInfo &target) {
  for (const BothAxesAlternative &alternative :
       getBothAxesAlternatives(works, target))
    if (alternative.tile.tile == tile)
      return alternative;
  return std::nullopt;
}

/// Returns the worthwhile both-axes alternatives whose ranges may include the
/// sizes of the works.
static SmallVector<BothAxesAlternative>
getWorthwhile(ArrayRef<QuantizeWork> works, const TargetInfo &target) {
  SmallVector<BothAxesAlternative> alternatives =
      getBothAxesAlternatives(works, target);
  llvm::erase_if(alternatives, [&](const BothAxesAlternative &alternative) {
    return !alternative.isWorthwhile ||
           (alternative.range &&
            !mayBeInRange(alternative.range, works[0], target));
  });
  return alternatives;
}

std::optional<QuantizeTileCost>
fp8moe::chooseBothAxesTile(Operation *op, ArrayRef<QuantizeWork> works,
                           const TargetInfo &target) {
  if (works.size() != 2)
    return std::nullopt;
  // A kernel that has no room on the card leaves the work to the next one, too.
  if (KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr()) {
    for (AlternativeAttr alternative : choice.getEntries())
      if (RangeAttr range = alternative.getRange();
          !range || mayBeInRange(range, works[0], target))
        if (auto found = findBothAxesTile(alternative.getTile(), works, target))
          return found->tile;
    return std::nullopt;
  }
  auto getCost = [&](const QuantizeTileCost &tile) {
    return estimateWithSource(tile, works[0], target);
  };
  std::optional<QuantizeTileCost> best;
  for (const BothAxesAlternative &alternative : getWorthwhile(works, target))
    if (!best || getCost(alternative.tile) < getCost(*best))
      best = alternative.tile;
  return best;
}

bool fp8moe::hasBothAxesTile(Operation *op, ArrayRef<QuantizeWork> works,
                             const TargetInfo &target) {
  if (KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr())
    return llvm::any_of(choice.getEntries(), [](AlternativeAttr alternative) {
      return isBothAxesTile(alternative.getTile());
    });
  return works.size() == 2 && !getWorthwhile(works, target).empty();
}

AlternativeAttr fp8moe::choosePerAxisKernels(ArrayRef<QuantizeWork> works,
                                             const TargetInfo &target) {
  SmallVector<Attribute> choices;
  for (const QuantizeWork &work : works)
    choices.push_back(chooseQuantizeKernels(work, target));
  MLIRContext *context = works.front().context;
  auto perAxis = PerAxisAttr::get(context, ArrayAttr::get(context, choices));
  return AlternativeAttr::get(context, perAxis, RangeAttr(), /*wave=*/0);
}

KernelChoiceAttr fp8moe::chooseBothAxesKernels(ArrayRef<QuantizeWork> works,
                                               const TargetInfo &target) {
  SmallVector<BothAxesAlternative> both = getWorthwhile(works, target);
  // Known groups take the best one. Others leave to those that follow what they
  // are not worthwhile for.
  if (!both.empty() && !ShapedType::isDynamic(getMeanLength(works.front()))) {
    auto best = *llvm::min_element(both, [&](const auto &a, const auto &b) {
      return estimateWithSource(a.tile, works[0], target) <
             estimateWithSource(b.tile, works[0], target);
    });
    both = {BothAxesAlternative{best.tile, RangeAttr()}};
  }
  // Fused kernels stand first: the rows are written before all others.
  llvm::stable_sort(both, [](const auto &a, const auto &b) {
    return computesInput(a.tile.tile) > computesInput(b.tile.tile);
  });
  SmallVector<AlternativeAttr> alternatives;
  for (const BothAxesAlternative &entry : both) {
    alternatives.push_back(AlternativeAttr::get(
        works[0].context, entry.tile.tile, entry.range, /*wave=*/0));
    if (!entry.range)
      break;
  }
  alternatives.push_back(choosePerAxisKernels(works, target));
  return KernelChoiceAttr::get(works.front().context, alternatives);
}

/// Whether the choice names a both-axes tile that is not legal for the works.
static bool hasIllegalBothAxesTile(KernelChoiceAttr choice,
                                   ArrayRef<QuantizeWork> works,
                                   const TargetInfo &target) {
  return works.size() == 2 && choice &&
         llvm::any_of(choice.getEntries(), [&](AlternativeAttr alternative) {
           return isBothAxesTile(alternative.getTile()) &&
                  !findBothAxesTile(alternative.getTile(), works, target);
         });
}

std::optional<Cost> fp8moe::estimateQuantize(Operation *op,
                                             ArrayRef<AssumedLayout> layouts,
                                             const TargetInfo &target) {
  if (!target.isGPU())
    return std::nullopt;
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op, layouts);
  if (works.empty())
    return std::nullopt;
  auto tiled = dyn_cast<TiledOpInterface>(op);
  KernelChoiceAttr choice = tiled ? tiled.getTilesAttr() : KernelChoiceAttr();
  if (hasIllegalBothAxesTile(choice, works, target))
    return Cost::infinite();
  for (QuantizeWork &work : works)
    if (work.jagged && ShapedType::isDynamic(work.rows))
      work.segments =
          std::min(work.segments, kNominalTokens / kLeastNominalGroupRows);
  if (std::optional<QuantizeTileCost> both =
          chooseBothAxesTile(op, works, target))
    return both->cost;
  Cost sum;
  for (auto [index, work] : llvm::enumerate(works))
    sum += estimateChoice(work, getAxisChoice(choice, index), target);
  return sum;
}
