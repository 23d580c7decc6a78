//===- ScaleProblem.cpp - What scales ask for -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/KernelProblem.h"
#include "fp8moe/Tuning/Quantize/ScaleWork.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

ScaleWork ScaleWork::get(Operation *op, ArrayRef<AssumedLayout> layouts) {
  return llvm::TypeSwitch<Operation *, ScaleWork>(op)
      .Case<ScaleOp, JaggedScaleOp>([&](auto op) {
        ScaleWork work;
        work.input = op.getInput().getType();
        work.scales = op.getType();
        // The verifiers take nothing but strided layouts.
        work.from = *getAssumedLayout(op.getInput(), layouts);
        return work;
      });
}

namespace {
class ScaleProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<ScaleOp, JaggedScaleOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(ScaleWork::get(op, layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    // The CPU reads elements in any order.
    if (!target.isGPU())
      return std::nullopt;
    auto work = ScaleWork::get(op, layouts);
    return chooseCandidate(rankTiles(op->getContext(), work, target)).cost;
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelProblem &getScaleProblem() {
  static const ScaleProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
