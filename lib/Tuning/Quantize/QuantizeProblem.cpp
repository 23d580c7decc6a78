//===- QuantizeProblem.cpp - Quantizations as kernels see them ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/KernelProblem.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class QuantizeProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return takesTile(op) || isa<QuantizeOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    for (const QuantizeWork &work : getQuantizeWorks(op, layouts))
      visit(work);
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    return estimateQuantize(op, layouts, target);
  }
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;

  bool takesTile(Operation *op) const override {
    return isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op);
  }
  TileAttrInterface getTile(Operation *op) const override {
    return getQuantizeTile(op);
  }
  void setTile(Operation *op, TileAttrInterface tile) const override {
    setQuantizeTile(op, cast<QuantizeTileAttr>(tile));
  }
};
} // namespace

static std::string describeTime(const KernelCandidate &candidate) {
  return llvm::formatv("{0} at {1:f1} us",
                       candidate.family->describe(candidate.tile),
                       candidate.cost.time / 1e6);
}

/// The terms that decide, and the best alternative.
static std::string explainTile(SmallVector<KernelCandidate> candidates,
                               TileAttrInterface tile) {
  auto *chosen = llvm::find_if(candidates, [&](const KernelCandidate &entry) {
    return entry.tile == tile;
  });
  if (chosen == candidates.end())
    return "";
  std::string text = chosen->reason;
  const KernelCandidate &best = chooseCandidate(candidates);
  if (chosen != &best)
    return text + "; as given, the model prefers " + describeTime(best);
  candidates.erase(chosen);
  if (candidates.empty())
    return text + "; the only tile for these layouts";
  return text + "; next best " + describeTime(chooseCandidate(candidates));
}

/// "by the mean length of slices: up to 512 <...>, ..., else <...>".
static std::string explainVariants(ArrayRef<QuantizeVariant> variants) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (variants.size() > 1)
    os << "by the mean length of slices: ";
  llvm::interleaveComma(variants, os, [&](const QuantizeVariant &variant) {
    if (variant.upTo)
      os << "up to " << *variant.upTo << " ";
    else if (variants.size() > 1)
      os << "else ";
    os << describeQuantizeTile(variant.tile.schedule);
  });
  return text;
}

/// Why an operation along both axes is one launch.
static std::string explainBothAxes(Operation *op, ArrayRef<QuantizeWork> works,
                                   const TargetInfo &target) {
  if (!getQuantizeTile(op) || !chooseBothAxesTile(op, works, target))
    return "";
  return llvm::formatv("both axes at once; a kernel for each takes {0:f1} us",
                       estimateApart(works, target).time / 1e6);
}

std::string QuantizeProblem::explainChoice(Operation *op,
                                           const TargetInfo &target) const {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.empty())
    return "";
  if (works.size() > 1)
    return explainBothAxes(op, works, target);
  const QuantizeWork &work = works.front();
  if (TileAttrInterface tile = getTile(op))
    return explainTile(rankTiles(op->getContext(), work, target), tile);
  return explainVariants(getQuantizeVariants(work, target));
}

namespace mlir::fp8moe {
const KernelProblem &getQuantizeProblem() {
  static const QuantizeProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
