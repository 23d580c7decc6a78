//===- GroupLaunches.cpp - Launch jagged quantizations together
//------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Two jagged quantizations of different tensors that share offsets, such as the
// operands of a weight gradient, are work of the same kind: one launch can do
// both, which saves a launch and lets the last blocks of the first run beside
// the first ones of the second. Bits do not change, as every unit of work is
// what it was.
//
//===----------------------------------------------------------------------===//

#include "LayoutRemarks.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "fp8moe/Tuning/QuantizeTiles.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_GROUPLAUNCHES
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct GroupLaunches : public fp8moe::impl::GroupLaunchesBase<GroupLaunches> {
  void runOnOperation() override;
};
} // namespace

static bool isGrouped(Operation *op) {
  return op->hasAttr(FP8MoEDialect::kLaunchGroupAttrName);
}

/// True when the code of both fits into one kernel: blocks of one size, and one
/// kernel for each. A streamed one is launched in its own way.
static bool canShareKernel(JaggedDynamicQuantizeOp first,
                           JaggedDynamicQuantizeOp second) {
  QuantizeTileAttr a = first.getTileAttr(), b = second.getTileAttr();
  return a && b && a.getThreads() == b.getThreads() &&
         a.getSchedule() == b.getSchedule() &&
         a.getSchedule() != TileSchedule::Streamed;
}

/// Moves one of the operations to the other, so that nothing is between them;
/// false when what they read and who reads them does not allow it.
static bool bringTogether(Operation *first, Operation *second) {
  bool canMoveUp = llvm::all_of(second->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return !producer || producer->getBlock() != first->getBlock() ||
           producer->isBeforeInBlock(first);
  });
  if (canMoveUp) {
    second->moveAfter(first);
    return true;
  }
  bool canMoveDown = llvm::all_of(first->getUsers(), [&](Operation *user) {
    Operation *ancestor = first->getBlock()->findAncestorOpInBlock(*user);
    return ancestor && second->isBeforeInBlock(ancestor);
  });
  if (canMoveDown)
    first->moveBefore(second);
  return canMoveDown;
}

void GroupLaunches::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  if (!target->getInfo().isGPU())
    return markAllAnalysesPreserved();

  llvm::MapVector<std::pair<Block *, Value>,
                  SmallVector<JaggedDynamicQuantizeOp, 2>>
      sharing;
  int64_t nextGroup = 0;
  function->walk([&](JaggedDynamicQuantizeOp op) {
    if (isGrouped(op))
      nextGroup = std::max(nextGroup, op->getAttrOfType<IntegerAttr>(
                                            FP8MoEDialect::kLaunchGroupAttrName)
                                              .getInt() +
                                          1);
    else if (op.getAxes().size() == 1)
      sharing[{op->getBlock(), op.getOffsets()}].push_back(op);
  });
  auto group = [&](Operation *op) {
    op->setAttr(FP8MoEDialect::kLaunchGroupAttrName,
                Builder(op).getI64IntegerAttr(nextGroup));
  };
  for (auto &entry : sharing) {
    SmallVector<JaggedDynamicQuantizeOp, 2> &ops = entry.second;
    for (size_t i = 0; i < ops.size(); ++i)
      for (size_t j = i + 1; j < ops.size() && !isGrouped(ops[i]); ++j) {
        if (isGrouped(ops[j]) || !canShareKernel(ops[i], ops[j]) ||
            !bringTogether(ops[i], ops[j]))
          continue;
        group(ops[i]);
        group(ops[j]);
        ++nextGroup;
        ++numGrouped;
        remark::passed(ops[j].getLoc(), layoutRemark("launched-together"))
            << "launched together with another quantization of the same "
               "groups: one launch less";
      }
  }
}
