//===- VerifyKernels.cpp - Reject kernels that the target cannot run ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "fp8moe/Tuning/KernelProblem.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct VerifyKernels : public fp8moe::impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override;
};
} // namespace

void VerifyKernels::runOnOperation() {
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();
  // The reference path takes every layout.
  if (!info.isGPU())
    return;
  bool ok = true;
  getOperation()->walk(
      [&](Operation *op) { ok &= succeeded(verifyKernels(op, info)); });
  if (!ok)
    signalPassFailure();
}
