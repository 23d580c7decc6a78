//===- VerifyKernels.cpp - Reject kernels that the target cannot run ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct VerifyKernels : public fp8moe::impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override;
};
} // namespace

static LogicalResult verifyOperation(Operation *op, const TargetInfo &target) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return call.emitOpError("calls '")
           << call.getCallee()
           << "', which has no body or calls itself, so it cannot be inlined; "
              "give it a body without recursion, or return here and take its "
              "results as arguments of another function";
  // The reference path takes every layout.
  return target.isGPU() ? verifyKernels(op, target) : success();
}

void VerifyKernels::runOnOperation() {
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  bool ok = true;
  getOperation()->walk([&](Operation *op) {
    ok &= succeeded(verifyOperation(op, target->getInfo()));
  });
  if (!ok)
    signalPassFailure();
}
