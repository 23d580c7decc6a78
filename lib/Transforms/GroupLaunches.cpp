//===- GroupLaunches.cpp - Launch jagged quantizations together -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two jagged quantizations of different tensors that share offsets, such as the
// operands of a K-grouped matmul, are work of the same kind: one launch can do
// both, which saves a launch and lets the last blocks of the first run beside
// the first ones of the second. Bits do not change, as every unit of work is
// what it was.
//
//===----------------------------------------------------------------------===//

#include "LayoutRemarks.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

#include <set>
#include <tuple>

namespace mlir::fp8moe {
#define GEN_PASS_DEF_GROUPLAUNCHES
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct GroupLaunches : public fp8moe::impl::GroupLaunchesBase<GroupLaunches> {
  void runOnOperation() override;
};
} // namespace

/// The key that two quantizations must share to be one launch: groups, the size
/// of blocks, and the family of the kernel.
using LaunchKey = std::tuple<Block *, Value, int64_t, const KernelFamily *>;

/// Nothing when the kernel of `op` is launched in a way of its own.
static std::optional<LaunchKey> getLaunchKey(JaggedDynamicQuantizeOp op) {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (!choice || choice.size() != 1 || op.getAxes().size() != 1)
    return std::nullopt;
  TileAttrInterface tile = choice.getFirst().getTile();
  const KernelFamily *family = findKernelFamily(tile);
  std::optional<int64_t> threads = family->getMergeableThreads(tile);
  if (!threads)
    return std::nullopt;
  return LaunchKey(op->getBlock(), op.getOffsets(), *threads, family);
}

/// The last operation of the block of `op` that `op` reads, or null.
static Operation *getLastProducer(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (producer && producer->getBlock() == op->getBlock() &&
        (!last || last->isBeforeInBlock(producer)))
      last = producer;
  }
  return last;
}

static bool isBefore(Operation *producer, Operation *op) {
  return !producer || producer->isBeforeInBlock(op);
}

/// True when nobody reads what `op` writes before `later`.
static bool canMoveDownTo(Operation *op, Operation *later) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*user);
    return ancestor && later->isBeforeInBlock(ancestor);
  });
}

/// Brings pairs out of `ops`, which are in the order of the program, together
/// and gives each to `group`. Every operation gets the first partner behind it
/// that can move up to it or that it can move down to; the partners are not
/// tried one by one, as a program may have thousands that depend on each other.
static void
pairUp(ArrayRef<JaggedDynamicQuantizeOp> ops,
       function_ref<void(JaggedDynamicQuantizeOp, JaggedDynamicQuantizeOp)>
           group) {
  SmallVector<Operation *> producers = llvm::map_to_vector(
      ops, [](JaggedDynamicQuantizeOp op) { return getLastProducer(op); });
  SmallVector<size_t> byProducer = llvm::to_vector(llvm::seq(ops.size()));
  llvm::sort(byProducer, [&](size_t a, size_t b) {
    if (producers[a] == producers[b])
      return a < b;
    return producers[b] && isBefore(producers[a], producers[b]);
  });
  // Quantizations without a partner, and those of them that can move up to
  // `ops[i]`.
  std::set<size_t> alone(byProducer.begin(), byProducer.end()), movable;
  auto next = byProducer.begin();
  for (size_t i = 0; i < ops.size(); ++i) {
    for (; next != byProducer.end() && isBefore(producers[*next], ops[i]);
         ++next)
      movable.insert(*next);
    if (!alone.erase(i))
      continue;
    auto lower = alone.upper_bound(i);
    if (lower == alone.end())
      return;
    auto upper = movable.upper_bound(i);
    while (upper != movable.end() &&
           (!alone.count(*upper) ||
            // The producers of its operands may have moved meanwhile.
            !isBefore(getLastProducer(ops[*upper]), ops[i])))
      upper = movable.erase(upper);
    size_t partner;
    if (upper != movable.end() && *upper == *lower) {
      partner = *upper;
      ops[partner]->moveAfter(ops[i]);
    } else if (canMoveDownTo(ops[i], ops[*lower])) {
      partner = *lower;
      ops[i]->moveBefore(ops[partner]);
    } else if (upper != movable.end()) {
      partner = *upper;
      ops[partner]->moveAfter(ops[i]);
    } else {
      continue;
    }
    alone.erase(partner);
    group(ops[i], ops[partner]);
  }
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

  llvm::MapVector<LaunchKey, SmallVector<JaggedDynamicQuantizeOp, 2>> sharing;
  int64_t nextGroup = 0;
  function->walk([&](JaggedDynamicQuantizeOp op) {
    if (auto group =
            op->getAttrOfType<IntegerAttr>(FP8MoEDialect::kLaunchGroupAttrName))
      nextGroup = std::max(nextGroup, group.getInt() + 1);
    else if (std::optional<LaunchKey> key = getLaunchKey(op))
      sharing[*key].push_back(op);
  });
  for (auto &entry : sharing)
    pairUp(entry.second,
           [&](JaggedDynamicQuantizeOp first, JaggedDynamicQuantizeOp second) {
             for (Operation *op : {first.getOperation(), second.getOperation()})
               op->setAttr(FP8MoEDialect::kLaunchGroupAttrName,
                           Builder(op).getI64IntegerAttr(nextGroup));
             ++nextGroup;
             ++numGrouped;
             remark::passed(second.getLoc(), layoutRemark("launched-together"))
                 << "launched together with another quantization of the same "
                    "groups: one launch less";
           });
}
