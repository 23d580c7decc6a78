//===- LoopAnnotations.cpp - Keep the annotations of loops ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_ATTACHLOOPANNOTATIONS
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;

/// The discardable attribute that `scf.for` carries, and that the conversions
/// of control flow hand on.
static constexpr StringLiteral kDiscardable = "llvm.loop_annotation";

template <typename BranchOp> static void attach(BranchOp branch) {
  auto annotation =
      branch->template getAttrOfType<LLVM::LoopAnnotationAttr>(kDiscardable);
  if (!annotation)
    return;
  branch.setLoopAnnotationAttr(annotation);
  branch->removeAttr(kDiscardable);
}

namespace {
struct AttachLoopAnnotations
    : fp8moe::impl::AttachLoopAnnotationsBase<AttachLoopAnnotations> {
  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      if (auto branch = dyn_cast<LLVM::BrOp>(op))
        attach(branch);
      else if (auto branch = dyn_cast<LLVM::CondBrOp>(op))
        attach(branch);
    });
  }
};
} // namespace
