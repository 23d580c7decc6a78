//===- QuantizeFamily.cpp - Families of quantize kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/QuantizeFamily.h"
#include "Tuning/Quantize/QuantizeCandidates.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

KernelCandidate
QuantizeFamily::getCandidate(MLIRContext *context,
                             const QuantizeTileCost &tile) const {
  bool isTraffic = tile.trafficTime >= tile.latencyTime;
  std::string reason =
      llvm::formatv("{0}: {1}, {2}, {3} {4} in {5} {6}",
                    stringifyQuantizeKind(tile.config.kind),
                    isTraffic ? "bound by bandwidth" : "bound by latency",
                    describeReads(tile), tile.workTiles, getWorkTileName(),
                    tile.getWaves(), tile.getWaves() == 1 ? "wave" : "waves");
  return {this, getQuantizeTile(context, tile.config), tile.cost, reason};
}

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
  for (const QuantizeTileCost &tile : tiles)
    candidates.push_back(getCandidate(context, tile));
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

bool BothAxesFamily::supports(const KernelWork &work,
                              const TargetInfo &target) const {
  return !getTiles(cast<BothAxesWork>(work).axes, target).empty();
}

void BothAxesFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const QuantizeTileCost &tile :
       getTiles(cast<BothAxesWork>(work).axes, target))
    candidates.push_back(getCandidate(context, tile));
}

/// The family that takes the works, and its tiles. There is at most one: each
/// is of one kind of targets.
static std::pair<const BothAxesFamily *, SmallVector<QuantizeTileCost>>
findBothAxesFamily(ArrayRef<QuantizeWork> works, const TargetInfo &target) {
  for (const KernelFamily *family : getKernelFamilies())
    if (auto *both = dyn_cast<BothAxesFamily>(family)) {
      SmallVector<QuantizeTileCost> tiles = both->getTiles(works, target);
      if (!tiles.empty())
        return {both, std::move(tiles)};
    }
  return {};
}

SmallVector<QuantizeTileCost>
fp8moe::getBothAxesTiles(ArrayRef<QuantizeWork> works,
                         const TargetInfo &target) {
  return findBothAxesFamily(works, target).second;
}

RangeAttr fp8moe::getBothAxesRange(MLIRContext *context,
                                   ArrayRef<QuantizeWork> works,
                                   const TargetInfo &target) {
  const BothAxesFamily *family = findBothAxesFamily(works, target).first;
  return family ? family->getRange(context, works, target) : RangeAttr();
}
