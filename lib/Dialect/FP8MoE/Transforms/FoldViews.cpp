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

/// The result of an operation as a view of its root.
struct ViewInfo {
  explicit ViewInfo(Value root)
      : root(root),
        expression(cast<RankedTensorType>(root.getType()).getShape()) {}

  Value root;
  ViewExpression expression;
  /// Operations between the root and the value.
  unsigned length = 0;
  /// The last copy among them, or null.
  Operation *copy = nullptr;
  /// Nobody else reads a copy among them, nor what comes behind it.
  bool isExclusive = true;
};

} // namespace

/// Longer chains are taken in parts, so that time stays linear. Folded chains
/// are shorter but for shared copies.
static constexpr unsigned kMaxChain = 16;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isView(Operation *op) {
  if (!isa<TransposeOp, ReshapeOp>(op))
    return false;
  Attribute encoding = tensorType(op->getResult(0)).getEncoding();
  return !encoding || isa<StridedEncodingAttr>(encoding);
}

/// True for an operation that returns its input, type and all.
static bool isIdentity(Operation *op) {
  if (op->getOperand(0).getType() != op->getResult(0).getType())
    return false;
  auto transpose = dyn_cast<TransposeOp>(op);
  return !transpose || llvm::is_sorted(transpose.getPermutation());
}

static bool isChainLink(Operation *op) {
  return isView(op) || LayoutGraph::isPlainRelayout(op);
}

/// The chain that ends with `op`; none when there is nothing before it.
static std::optional<ViewInfo> getInfo(Operation *op) {
  SmallVector<Operation *, kMaxChain> chain;
  for (Operation *link = op; link && isChainLink(link);) {
    chain.push_back(link);
    link = link->getOperand(0).getDefiningOp();
    if (chain.size() == kMaxChain)
      break;
  }
  if (chain.size() < 2)
    return std::nullopt;
  ViewInfo info(chain.back()->getOperand(0));
  for (Operation *link : llvm::reverse(chain)) {
    info.isExclusive &= !info.copy || link->getOperand(0).hasOneUse();
    ++info.length;
    if (!isView(link)) {
      info.copy = link;
    } else if (!info.expression.apply(link)) {
      // The result is a root of its own.
      if (link == op)
        remark::missed(op->getLoc(), layoutRemark("reshape-kept"))
            << "reshape kept: the sizes of the views before it do not divide "
               "its own";
      info = ViewInfo(link->getResult(0));
    }
  }
  return info;
}

static void eraseUnused(Operation *op) {
  while (op && op->use_empty() && isChainLink(op)) {
    Operation *producer = op->getOperand(0).getDefiningOp();
    op->erase();
    op = producer;
  }
}

static Value createChain(Operation *op, const ViewInfo &info,
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

/// Replaces `op` by the shortest chain from its root, if that is shorter than
/// what there is.
static void foldChain(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  if (isIdentity(op)) {
    result.replaceAllUsesWith(input);
    return eraseUnused(op);
  }
  std::optional<ViewInfo> info = getInfo(op);
  if (!info || info->length < 2)
    return;
  RankedTensorType rootType = tensorType(info->root);
  RankedTensorType wanted = tensorType(result);
  StridedLayout seen;
  std::optional<SmallVector<ViewStep>> chain =
      info->expression.getShortestChain(*StridedLayout::get(rootType), seen);
  if (!chain)
    return;
  StridedLayout wantedLayout = *StridedLayout::get(wanted);
  bool needsCopy = !seen.isSameAs(wantedLayout, wanted.getShape()) ||
                   seen.align < wantedLayout.align;
  unsigned length = chain->size() + needsCopy;
  if (chain->empty() && !needsCopy && rootType != wanted)
    length = 1; // A relayout that only spells the layout differently.
  // A copy must not become two, nor move into a loop.
  bool mayCopy = info->copy && info->isExclusive &&
                 info->copy->getBlock() == op->getBlock();
  if (length >= info->length || (needsCopy && !mayCopy))
    return;
  if (info->copy && !needsCopy)
    remark::passed(info->copy->getLoc(), layoutRemark("copy-removed"))
        << "copy removed: views of the tensor before it show the same bytes";
  result.replaceAllUsesWith(createChain(op, *info, *chain, needsCopy));
  eraseUnused(op);
}

static void foldChains(FunctionOpInterface function) {
  SmallVector<Operation *> links;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<TransposeOp, ReshapeOp, ContiguousOp, RelayoutOp>(op) &&
        isChainLink(op))
      links.push_back(op);
  });
  // Only operations up to the visited one are erased.
  for (Operation *op : links)
    foldChain(op);
}

void FoldViews::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  foldChains(function);
  SmallVector<KernelOpInterface> kernels;
  function->walk<WalkOrder::PreOrder>([&](KernelOpInterface kernel) {
    if (kernel->getOperand(0).getDefiningOp<ReshapeOp>())
      kernels.push_back(kernel);
  });
  bool changed = false;
  for (KernelOpInterface kernel : kernels)
    changed |= sinkReshapeBelow(kernel);
  if (changed)
    foldChains(function);
}
