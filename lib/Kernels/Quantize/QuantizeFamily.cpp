//===- QuantizeFamily.cpp - Families of quantize kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/QuantizeCandidates.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

bool AxisQuantizeFamily::supports(const KernelWork &work,
                                  const TargetInfo &target) const {
  const auto &known = cast<QuantizeWork>(work);
  SmallVector<QuantizeTileCost> tiles;
  addTiles(known, withNominalSizes(known), target, tiles);
  return !tiles.empty();
}

void AxisQuantizeFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  const auto &known = cast<QuantizeWork>(work);
  SmallVector<QuantizeTileCost> tiles;
  addTiles(known, withNominalSizes(known), target, tiles);
  for (const QuantizeTileCost &tile : tiles) {
    bool isTraffic = tile.trafficTime >= tile.latencyTime;
    std::string reason =
        llvm::formatv("{0}: {1}, {2}, {3} {4} in {5} {6}",
                      stringifyQuantizeKind(getQuantizeKind(known)),
                      isTraffic ? "bound by bandwidth" : "bound by latency",
                      describeReads(tile), tile.workTiles, getWorkTileName(),
                      tile.getWaves(), tile.getWaves() == 1 ? "wave" : "waves");
    candidates.push_back({this, tile.tile, tile.cost, reason});
  }
}

ArrayRef<const AxisQuantizeFamily *> fp8moe::getAxisQuantizeFamilies() {
  static const auto families = [] {
    SmallVector<const AxisQuantizeFamily *> families;
    for (const KernelFamily *family : getKernelFamilies())
      if (auto *quantize = dyn_cast<AxisQuantizeFamily>(family))
        families.push_back(quantize);
    return families;
  }();
  return families;
}

//===----------------------------------------------------------------------===//
// Along both axes
//===----------------------------------------------------------------------===//

/// Percent of time that a launch along both axes must save over one launch for
/// each axis: the model is not more accurate.
static constexpr int64_t kLeastGainPercent = 8;

/// Whether a tile saves kLeastGainPercent of `apart`, the cost of one launch
/// for each axis.
static bool isClearlyLess(const QuantizeTileCost &tile, const Cost &apart,
                          const QuantizeWork &columns,
                          const TargetInfo &target) {
  int64_t before = estimateSource(columns, target);
  return estimateWithSource(tile, columns, target).time * 100 <
         (apart.time + before) * (100 - kLeastGainPercent);
}

/// Returns the range (above, up to) of getTypicalLengths where the family's
/// tile is worthwhile, or none.
static std::optional<std::pair<int64_t, int64_t>>
findWorthwhileLengths(const BothAxesFamily &family,
                      ArrayRef<QuantizeWork> works, const TargetInfo &target) {
  // With an unknown number of groups there are more rows where groups are
  // longer, not fewer groups.
  QuantizeWork nominal = withNominalSizes(works[0]), known = works[0];
  known.segments = nominal.segments;
  std::optional<std::pair<int64_t, int64_t>> lengths;
  int64_t shorter = 0;
  for (int64_t length : getTypicalLengths()) {
    QuantizeWork columns = withTypicalGroups(known, nominal, length);
    QuantizeWork rows = works[1];
    rows.columns = columns.rows;
    rows.segments = columns.jagged ? 1 : columns.segments;
    std::optional<QuantizeTileCost> tile =
        family.getTile(columns, rows, target);
    Cost apart =
        chooseQuantizeTile(rankQuantizeTiles(works[0], columns, target)).cost;
    apart += chooseQuantizeTile(rankQuantizeTiles(works[1], rows, target)).cost;
    if (tile && isClearlyLess(*tile, apart, columns, target))
      lengths = {lengths ? lengths->first : shorter, length};
    shorter = length;
  }
  // The answer for the longest length is expected to hold for all that are
  // longer.
  if (lengths && lengths->second == shorter)
    lengths->second = kUnbounded;
  return lengths;
}

SmallVector<BothAxesAlternative>
fp8moe::getBothAxesAlternatives(ArrayRef<QuantizeWork> works,
                                const TargetInfo &target) {
  SmallVector<BothAxesAlternative> alternatives;
  // No kernel writes two types.
  if (works.size() != 2 || works[0].fp8Type != works[1].fp8Type)
    return alternatives;
  for (const KernelFamily *family : getKernelFamilies()) {
    auto *both = dyn_cast<BothAxesFamily>(family);
    std::optional<QuantizeTileCost> tile;
    if (both)
      tile = both->getTile(works[0], works[1], target);
    if (!tile)
      continue;
    BothAxesAlternative &alternative = alternatives.emplace_back(
        BothAxesAlternative{*tile, both->getRange(works[0], target)});
    if (!ShapedType::isDynamic(getMeanLength(works[0]))) {
      alternative.isWorthwhile =
          isClearlyLess(*tile, estimateApart(works, target), works[0], target);
      continue;
    }
    auto lengths = findWorthwhileLengths(*both, works, target);
    alternative.isWorthwhile = lengths.has_value();
    if (!alternative.range && lengths &&
        *lengths != std::pair<int64_t, int64_t>(0, kUnbounded))
      alternative.range = RangeAttr::get(works[0].context, Quantity::MeanLength,
                                         lengths->first, lengths->second);
  }
  return alternatives;
}
