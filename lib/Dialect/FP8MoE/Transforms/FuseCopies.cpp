//===- FuseCopies.cpp - Copies that quantizations write -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"

#include "LayoutRemarks.h"
#include "Regroupings.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Tuning/KernelCost.h"
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
      copy.getInput() != quantize.getQuantized()[0] ||
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

/// Whether both operations write the same data, in different layouts.
static bool differInLayout(DynamicQuantizeOp first, DynamicQuantizeOp second) {
  RankedTensorType data = tensorType(first.getQuantized()[0]);
  RankedTensorType copy = tensorType(second.getQuantized()[0]);
  return first.getAxes().size() == 1 && !first.getTilesAttr() &&
         !second.getTilesAttr() &&
         first.getRounding() == second.getRounding() &&
         first.getAxes() == second.getAxes() &&
         first.getScales()[0].getType() == second.getScales()[0].getType() &&
         data.getElementType() == copy.getElementType() &&
         data.getShape() == copy.getShape() && !haveSameLayout(data, copy);
}

/// Replaces both quantizations of one tensor by one that writes both layouts,
/// if there is a kernel for it and it is predicted to take less time:
///
///   %q0, %s0 = dynamic_quantize %x along [1]    // row-major
///   %q1, %s1 = dynamic_quantize %x along [1]    // column-major
///
///   -->  %q0, %q1, %s0 = dynamic_quantize_copy %x along 1
static bool fuse(DynamicQuantizeOp first, DynamicQuantizeOp second,
                 const TargetInfo &target) {
  if (!differInLayout(first, second))
    return false;
  OpBuilder builder(first);
  auto fused = DynamicQuantizeCopyOp::create(
      builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}),
      TypeRange{first.getQuantized()[0].getType(),
                second.getQuantized()[0].getType(),
                first.getScales()[0].getType()},
      first.getInput(), /*offsets=*/Value(), first.getAxes()[0],
      first.getRounding(), /*tiles=*/KernelChoiceAttr());
  if (!hasKernels(fused, target) || !(estimateKernel(fused, {}, target) <
                                      estimateKernel(first, {}, target) +
                                          estimateKernel(second, {}, target))) {
    fused.erase();
    return false;
  }
  remark::passed(second.getLoc(), layoutRemark("merged"))
      << "written by the same quantization in another layout: the tensor is "
         "read once";
  first.getQuantized()[0].replaceAllUsesWith(fused.getQuantized());
  second.getQuantized()[0].replaceAllUsesWith(fused.getCopy());
  for (DynamicQuantizeOp op : {first, second}) {
    op.getScales()[0].replaceAllUsesWith(fused.getScales());
    op.erase();
  }
  return true;
}

void FuseCopies::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return markAllAnalysesPreserved();
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  unsigned fused = 0;
  SmallVector<RelayoutOp> copies;
  function->walk([&](RelayoutOp op) { copies.push_back(op); });
  for (RelayoutOp copy : copies)
    if (auto quantize = copy.getInput().getDefiningOp<DynamicQuantizeOp>())
      fused += fuse(quantize, copy, target->getInfo());
  fused += fusePairs<DynamicQuantizeOp>(
      function, [&](DynamicQuantizeOp first, DynamicQuantizeOp second) {
        return fuse(first, second, target->getInfo());
      });
  numFused += fused;
  if (!fused)
    markAllAnalysesPreserved();
}
