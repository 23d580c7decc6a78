//===- AttachTarget.cpp - Write the target on the module ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Pipelines/Compiler.h"
#include "fp8moe/Pipelines/Pipelines.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_ATTACHTARGET
#include "fp8moe/Pipelines/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct AttachTarget : fp8moe::impl::AttachTargetBase<AttachTarget> {
  using AttachTargetBase::AttachTargetBase;

  void runOnOperation() override {
    LogicalResult result =
        chip.empty() ? success(succeeded(requireTargetAttr(getOperation())))
                     : setTarget(getOperation(), chip);
    if (failed(result))
      signalPassFailure();
  }
};
} // namespace
