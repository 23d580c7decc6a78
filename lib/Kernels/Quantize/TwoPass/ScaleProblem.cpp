//===- ScaleProblem.cpp - What scales ask for -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Scales without the values: the first half of the kernels that read twice,
/// with their tiles.
class ScaleProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<ScaleOp, JaggedScaleOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    for (const QuantizeWork &work : getQuantizeWorks(op, layouts))
      visit(work);
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override;
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;
  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override;
  bool hasOneTile() const override { return true; }
  StringRef getSweepPrefix() const override { return "s"; }
};
} // namespace

static SmallVector<KernelCandidate> rankScaleTiles(Operation *op,
                                                   const TargetInfo &target) {
  return rankTiles(op->getContext(), getQuantizeWorks(op).front(), target);
}

/// The input is read once and nothing else written, whatever the tile.
std::optional<Cost> ScaleProblem::estimate(Operation *op,
                                           ArrayRef<AssumedLayout> layouts,
                                           const TargetInfo &target) const {
  // The CPU reads elements in any order.
  if (!target.isGPU())
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, Cost>(op).Case<ScaleOp, JaggedScaleOp>(
      [&](auto op) {
        RankedTensorType input = op.getInput().getType();
        // The verifiers take nothing but strided layouts.
        int64_t read = estimateSectorBytes(
            input, *getAssumedLayout(op.getInput(), layouts), walkAll(input),
            target);
        return estimateTraffic(read + estimateTensorBytes(op.getType()),
                               target);
      });
}

std::string ScaleProblem::explainChoice(Operation *op,
                                        const TargetInfo &target) const {
  KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
  TileAttrInterface tile = choice ? getOnlyTile(choice) : TileAttrInterface();
  if (!tile)
    return "";
  return explainTile(rankScaleTiles(op, target), tile);
}

KernelChoiceAttr ScaleProblem::choose(Operation *op,
                                      const TargetInfo &target) const {
  SmallVector<KernelCandidate> candidates = rankScaleTiles(op, target);
  return KernelChoiceAttr::get(op->getContext(),
                               chooseCandidate(candidates).tile);
}

FP8MOE_DEFINE_ROW(KernelProblem, ScaleProblem)
