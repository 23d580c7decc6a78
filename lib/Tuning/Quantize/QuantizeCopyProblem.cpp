//===- QuantizeCopyProblem.cpp - Data in two layouts ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/KernelProblem.h"
#include "fp8moe/Tuning/Quantize/QuantizeCopy.h"

using namespace mlir;
using namespace mlir::fp8moe;

QuantizeCopyWork QuantizeCopyWork::get(DynamicQuantizeCopyOp op,
                                       ArrayRef<AssumedLayout> layouts) {
  QuantizeCopyWork work;
  work.input = op.getInput().getType();
  work.data = op.getQuantized().getType();
  work.copy = op.getCopy().getType();
  work.axis = op.getAxis();
  work.powerOfTwo = op.getRounding() == ScaleRounding::Pow2;
  // The verifier takes nothing but strided layouts.
  work.from = *getAssumedLayout(op.getInput(), layouts);
  work.dataLayout = *getAssumedLayout(op.getQuantized(), layouts);
  work.copyLayout = *getAssumedLayout(op.getCopy(), layouts);
  return work;
}

namespace {
class QuantizeCopyProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<DynamicQuantizeCopyOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(QuantizeCopyWork::get(cast<DynamicQuantizeCopyOp>(op), layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    if (!target.isGPU())
      return std::nullopt;
    SmallVector<KernelCandidate> candidates = rank(op, layouts, target);
    if (candidates.empty())
      return std::nullopt;
    return chooseCandidate(candidates).cost;
  }
  std::string explainChoice(Operation *, const TargetInfo &) const override {
    return "all tiles move the same bytes; the first of them";
  }
  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override {
    return KernelChoiceAttr::get(op->getContext(),
                                 chooseCandidate(rank(op, {}, target)).tile);
  }
  StringRef getVariant(Operation *) const override {
    return " of these tensors";
  }
  bool hasOneTile() const override { return true; }
  StringRef getSweepPrefix() const override { return "c"; }
  StringRef describeKernels(Operation *) const override {
    return "there are kernels for bf16 of rank 2 or 3 whose slices are "
           "contiguous in input and data, and of 16 to 28672 elements, a "
           "multiple of 16 (of 32 from 7169 on, of 64 "
           "from 14337 on), with a copy that is contiguous along another "
           "dimension, and of rank 2 may have groups along that one, padded to "
           "multiples of 32";
  }

private:
  static SmallVector<KernelCandidate> rank(Operation *op,
                                           ArrayRef<AssumedLayout> layouts,
                                           const TargetInfo &target) {
    return rankTiles(
        op->getContext(),
        QuantizeCopyWork::get(cast<DynamicQuantizeCopyOp>(op), layouts),
        target);
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelProblem &getQuantizeCopyProblem() {
  static const QuantizeCopyProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
