//===- FuseCopies.cpp - Copies that quantizations write -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"

#include "LayoutRemarks.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Tuning/KernelProblem.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_FUSECOPIES
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct FuseCopies : public fp8moe::impl::FuseCopiesBase<FuseCopies> {
  void runOnOperation() override;
};
} // namespace

/// Whether a value is there before `op`, in the same block or around it.
static bool isThereBefore(Value value, Operation *op) {
  Operation *producer = value.getDefiningOp();
  return !producer || producer->getBlock() != op->getBlock() ||
         producer->isBeforeInBlock(op);
}

/// Replaces the two by one operation, if there is a kernel for it.
static bool fuse(DynamicQuantizeOp quantize, RelayoutOp copy,
                 const TargetInfo &target) {
  if (quantize.getAxes().size() != 1 || quantize.getTilesAttr() ||
      quantize->getBlock() != copy->getBlock() || isNoopRelayout(copy) ||
      copy.use_empty() ||
      (copy.getOffsets() && !isThereBefore(copy.getOffsets(), quantize)))
    return false;
  Value data = quantize.getQuantized()[0], scales = quantize.getScales()[0];
  OpBuilder builder(quantize);
  auto fused = DynamicQuantizeCopyOp::create(
      builder, builder.getFusedLoc({quantize.getLoc(), copy.getLoc()}),
      TypeRange{data.getType(), copy.getType(), scales.getType()},
      quantize.getInput(), copy.getOffsets(), quantize.getAxes()[0],
      quantize.getRounding(), /*tiles=*/KernelChoiceAttr());
  if (!hasKernels(fused, target)) {
    fused.erase();
    return false;
  }
  remark::passed(copy.getLoc(), layoutRemark("copy-fused"))
      << "written by the quantization of the same data: less is read";
  data.replaceAllUsesWith(fused.getQuantized());
  scales.replaceAllUsesWith(fused.getScales());
  copy.replaceAllUsesWith(fused.getCopy());
  copy.erase();
  quantize.erase();
  return true;
}

void FuseCopies::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  SmallVector<RelayoutOp> copies;
  function->walk([&](RelayoutOp op) { copies.push_back(op); });
  for (RelayoutOp copy : copies)
    if (auto quantize = copy.getInput().getDefiningOp<DynamicQuantizeOp>())
      numFused += fuse(quantize, copy, target->getInfo());
}
