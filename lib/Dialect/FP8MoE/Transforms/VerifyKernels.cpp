//===- VerifyKernels.cpp - Reject kernels that the target cannot run ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"

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
  bool ok = true;
  getOperation()->walk([&](KernelOpInterface kernel) {
    ok &= succeeded(kernel.verifyForTarget(target->getInfo()));
  });
  if (!ok)
    signalPassFailure();
}
