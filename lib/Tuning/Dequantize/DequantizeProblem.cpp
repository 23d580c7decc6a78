//===- DequantizeProblem.cpp - What dequantizations ask for ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Dequantize/DequantizeWork.h"
#include "fp8moe/Tuning/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

DequantizeWork DequantizeWork::get(DequantizeOp op,
                                   ArrayRef<AssumedLayout> layouts) {
  DequantizeWork work;
  work.input = op.getInput().getType();
  work.scales = op.getScale().getType();
  work.result = op.getType();
  // The verifier takes nothing but strided layouts.
  work.from = *getAssumedLayout(op.getInput(), layouts);
  work.to = *getAssumedLayout(op.getResult(), layouts);
  return work;
}

namespace {
class DequantizeProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override { return isa<DequantizeOp>(op); }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(DequantizeWork::get(cast<DequantizeOp>(op), layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    // The CPU reads and writes elements in any order.
    if (!target.isGPU())
      return std::nullopt;
    auto work = DequantizeWork::get(cast<DequantizeOp>(op), layouts);
    return chooseCandidate(rankTiles(op->getContext(), work, target)).cost;
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelProblem &getDequantizeProblem() {
  static const DequantizeProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
