//===- MatmulProblem.cpp - Grouped matmuls as kernels see them ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/MatmulFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class MatmulProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<MatmulOpInterface>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout>,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(getMatmulWork(cast<MatmulOpInterface>(op)));
  }
  /// Families take one layout of each tensor, or any.
  std::optional<Cost> estimate(Operation *, ArrayRef<AssumedLayout>,
                               const TargetInfo &) const override {
    return std::nullopt;
  }
  bool takesTogether(Operation *op,
                     ArrayRef<AssumedLayout> layouts) const override;
  std::optional<Cost> predictChoice(Operation *op,
                                    const TargetInfo &target) const override;
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;

  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override;
  StringRef getVariant(Operation *op) const override {
    return hasBlockScales(cast<MatmulOpInterface>(op))
               ? " with scales of blocks"
               : "";
  }
  StringRef getSweepPrefix() const override { return "m"; }
};
} // namespace

static const MatmulFamily *findMatmulFamily(const MatmulWork &work,
                                            const TargetInfo &target) {
  return cast_or_null<MatmulFamily>(findKernelFamily(work, target));
}

KernelChoiceAttr MatmulProblem::choose(Operation *op,
                                       const TargetInfo &target) const {
  MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
  return findMatmulFamily(work, target)->choose(op->getContext(), work, target);
}

/// An addend lies as the result does.
bool MatmulProblem::takesTogether(Operation *op,
                                  ArrayRef<AssumedLayout> layouts) const {
  auto matmul = cast<MatmulOpInterface>(op);
  if (!hasFreeAddend(matmul))
    return true;
  return getAssumedLayout(matmul.getAddend(), layouts)
      ->isSameAs(*getAssumedLayout(matmul.getResult(), layouts),
                 matmul.getType().getShape());
}

/// The cost of the best one of several tiles.
std::optional<Cost>
MatmulProblem::predictChoice(Operation *op, const TargetInfo &target) const {
  MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
  const MatmulFamily *family = findMatmulFamily(work, target);
  KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
  if (!family || !choice)
    return std::nullopt;
  Cost best = Cost::infinite();
  for (AlternativeAttr alternative : choice.getEntries())
    best = std::min(best, family->predict(work, alternative.getTile(), target));
  return best;
}

std::string MatmulProblem::explainChoice(Operation *op,
                                         const TargetInfo &target) const {
  MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
  const MatmulFamily *family = findMatmulFamily(work, target);
  KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
  return family && choice ? family->explain(work, choice, target) : "";
}

FP8MOE_DEFINE_ROW(KernelProblem, MatmulProblem)
