//===- MXProblem.cpp - What MX quantizations ask for ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/KernelProblem.h"
#include "fp8moe/Tuning/Quantize/MX/MXWork.h"

using namespace mlir;
using namespace mlir::fp8moe;

MXWork MXWork::get(MXQuantizeOp op, ArrayRef<AssumedLayout> layouts) {
  MXWork work;
  work.input = op.getInput().getType();
  work.data = op.getQuantized().getType();
  work.scales = op.getScales().getType();
  // The verifier takes nothing but strided layouts of these two.
  work.from = *getAssumedLayout(op.getInput(), layouts);
  work.to = *getAssumedLayout(op.getQuantized(), layouts);
  return work;
}

namespace {
class MXProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override { return isa<MXQuantizeOp>(op); }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(MXWork::get(cast<MXQuantizeOp>(op), layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    auto candidates = rankTiles(
        op->getContext(), MXWork::get(cast<MXQuantizeOp>(op), layouts), target);
    // Where no kernel takes it, moving the tensors still tells layouts apart.
    if (candidates.empty())
      return std::nullopt;
    return chooseCandidate(candidates).cost;
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelProblem &getMXProblem() {
  static const MXProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
