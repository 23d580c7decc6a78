//===- CopyFamily.cpp - The kernels that copy tensors ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class CopyProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<RelayoutOp, ContiguousOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(CopyWork::get(op, layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    return estimateRelayout(op, layouts, target);
  }
};

class CopyFamily : public UntiledFamily<CopyWork> {
public:
  StringRef getName() const override { return "copy"; }

protected:
  Cost predict(const CopyWork &work, const TargetInfo &target) const override {
    return estimateRelayout(work, target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, CopyProblem)
FP8MOE_DEFINE_ROW(KernelFamily, CopyFamily)
