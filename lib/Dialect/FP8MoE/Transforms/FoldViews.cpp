//===- FoldViews.cpp - Compose views and move them below kernels ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// 1. Fold: for every view and copy, in program order, find its root through all
//    views and copies before it, and replace it by the shortest chain of views
//    of the root (ViewExpression), with at most one copy behind.
// 2. Sink: kernels that read a reshape read the tensor in its own shape
//    (SinkReshapes.cpp).
// 3. Fold again when that has made new chains.
//
//===----------------------------------------------------------------------===//

#include "FoldViews.h"

#include "LayoutGraph.h"
#include "LayoutRemarks.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_FOLDVIEWS
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct FoldViews : public fp8moe::impl::FoldViewsBase<FoldViews> {
  using FoldViewsBase::FoldViewsBase;
  void runOnOperation() override;
};

/// A value as a view of its root.
struct ViewInfo {
  ViewInfo(Value root, ArrayRef<int64_t> shape)
      : root(root), expression(shape) {}

  Value root;
  ViewExpression expression;
  /// Operations between the root and the value.
  unsigned length = 0;
  /// The last copy among them, or null.
  Operation *copy = nullptr;
  /// Nobody else reads a copy among them, nor what comes behind it.
  bool isExclusive = true;
};

class ViewFolder {
public:
  explicit ViewFolder(FunctionOpInterface function) : function(function) {}
  void run();

private:
  ViewInfo getInfo(Value value) const;
  void visit(Operation *op);
  Value createChain(Operation *op, const ViewInfo &info,
                    ArrayRef<ViewStep> chain, bool needsCopy);
  void eraseUnused(Operation *op);

  FunctionOpInterface function;
  llvm::DenseMap<Value, ViewInfo> infos;
};
} // namespace

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isView(Operation *op) {
  return isa<TransposeOp, ReshapeOp>(op) &&
         StridedLayout::get(tensorType(op->getResult(0)));
}

/// True for an operation that returns its input, type and all.
static bool isIdentity(Operation *op) {
  if (op->getOperand(0).getType() != op->getResult(0).getType())
    return false;
  auto transpose = dyn_cast<TransposeOp>(op);
  return !transpose || llvm::is_sorted(transpose.getPermutation());
}

ViewInfo ViewFolder::getInfo(Value value) const {
  auto it = infos.find(value);
  return it == infos.end() ? ViewInfo(value, tensorType(value).getShape())
                           : it->second;
}

void ViewFolder::eraseUnused(Operation *op) {
  while (op && op->use_empty() &&
         (isView(op) || LayoutGraph::isPlainRelayout(op))) {
    Operation *producer = op->getOperand(0).getDefiningOp();
    // Another operation may get the same address.
    infos.erase(op->getResult(0));
    op->erase();
    op = producer;
  }
}

Value ViewFolder::createChain(Operation *op, const ViewInfo &info,
                              ArrayRef<ViewStep> chain, bool needsCopy) {
  OpBuilder builder(op);
  RankedTensorType wanted = tensorType(op->getResult(0));
  Value value = info.root;
  for (const ViewStep &step : chain) {
    RankedTensorType type = tensorType(value);
    bool isLast = &step == &chain.back();
    StridedLayout layout =
        *applyView(step, type.getShape(), *StridedLayout::get(type));
    auto result = isLast && !needsCopy
                      ? wanted
                      : RankedTensorType::get(
                            step.shape, type.getElementType(),
                            encodeLayout(op->getContext(), layout, step.shape));
    if (step.isTranspose())
      value = TransposeOp::create(builder, op->getLoc(), result, value,
                                  step.permutation);
    else
      value = ReshapeOp::create(builder, op->getLoc(), result, value);
  }
  if (value.getType() == wanted)
    return value;
  // The user knows the copy by the line that asked for it.
  Location loc = info.copy ? info.copy->getLoc() : op->getLoc();
  return RelayoutOp::create(builder, loc, wanted, value, /*offsets=*/Value());
}

void ViewFolder::visit(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  if (isIdentity(op)) {
    result.replaceAllUsesWith(input);
    eraseUnused(op);
    return;
  }
  ViewInfo info = getInfo(input);
  info.isExclusive &= !info.copy || input.hasOneUse();
  ++info.length;
  if (LayoutGraph::isPlainRelayout(op)) {
    info.copy = op;
  } else if (!info.expression.apply(op)) {
    // The result is a root of its own.
    remark::missed(op->getLoc(), layoutRemark("reshape-kept"))
        << "reshape kept: the sizes of the views before it do not divide its "
           "own";
    return;
  }
  if (info.length == 1) {
    infos.insert({result, std::move(info)});
    return;
  }

  RankedTensorType rootType = tensorType(info.root);
  RankedTensorType wanted = tensorType(result);
  StridedLayout seen;
  std::optional<SmallVector<ViewStep>> chain =
      info.expression.getShortestChain(*StridedLayout::get(rootType), seen);
  if (!chain) {
    infos.insert({result, std::move(info)});
    return;
  }
  StridedLayout wantedLayout = *StridedLayout::get(wanted);
  bool needsCopy = !seen.isSameAs(wantedLayout, wanted.getShape()) ||
                   seen.align < wantedLayout.align;
  unsigned length = chain->size() + needsCopy;
  if (chain->empty() && !needsCopy && rootType != wanted)
    length = 1; // A relayout that only spells the layout differently.
  // A copy must not become two, nor move into a loop.
  bool mayCopy =
      info.copy && info.isExclusive && info.copy->getBlock() == op->getBlock();
  if (length >= info.length || (needsCopy && !mayCopy)) {
    infos.insert({result, std::move(info)});
    return;
  }
  if (info.copy && !needsCopy)
    remark::passed(info.copy->getLoc(), layoutRemark("copy-removed"))
        << "copy removed: views of the tensor before it show the same bytes";
  Value replacement = createChain(op, info, *chain, needsCopy);
  result.replaceAllUsesWith(replacement);
  eraseUnused(op);
  if (replacement == info.root)
    return;
  info.length = length;
  info.copy = LayoutGraph::isPlainRelayout(replacement.getDefiningOp())
                  ? replacement.getDefiningOp()
                  : nullptr;
  info.isExclusive = true;
  infos.insert({replacement, std::move(info)});
}

void ViewFolder::run() {
  SmallVector<Operation *> operations;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isView(op) || LayoutGraph::isPlainRelayout(op))
      operations.push_back(op);
  });
  // Only operations before the visited one are erased.
  for (Operation *op : operations)
    visit(op);
}

void FoldViews::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  ViewFolder(function).run();
  SmallVector<KernelOpInterface> kernels;
  function->walk<WalkOrder::PreOrder>([&](KernelOpInterface kernel) {
    if (kernel->getOperand(0).getDefiningOp<ReshapeOp>())
      kernels.push_back(kernel);
  });
  bool changed = false;
  for (KernelOpInterface kernel : kernels)
    changed |= sinkReshapeBelow(kernel);
  if (changed)
    ViewFolder(function).run();
}
