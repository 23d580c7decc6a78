//===- FoldViews.cpp - Compose views and move them below kernels ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// 1. Erase dead operations, which could prevent other folds.
// 2. Fold copies that pad packed groups, or the reverse (Regroupings.cpp).
// 3. Fold views: the end of a chain of views and copies is a link with several
//    readers, or with one that is no link. For every end, in program order,
//    find the root of the chain. Replace the end by the shortest chain of views
//    of the root (ViewExpression), with at most one copy after them.
// 4. Sink: kernels that read a transposed tensor read the tensor in its own
//    order (SinkTransposes.cpp). Those that read a reshape read its input
//    (SinkReshapes.cpp).
// 5. Fold the chains around such kernels again.
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "Regroupings.h"
#include "Steps.h"
#include "ViewExpression.h"
#include "fp8moe/Transforms/Passes.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_FOLDVIEWS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct FoldViews : public fp8moe::impl::FoldViewsBase<FoldViews> {
  using FoldViewsBase::FoldViewsBase;
  void runOnOperation() override;
};

/// The result of an operation as a view of its root, through a chain of views
/// and plain copies.
struct ViewInfo {
  explicit ViewInfo(Value root)
      : root(root),
        expression(cast<RankedTensorType>(root.getType()).getShape()) {}

  Value root;
  ViewExpression expression;
  /// The number of operations between the root and the value.
  unsigned length = 0;
  /// The last copy of the chain, or null.
  Operation *copy = nullptr;
  /// Whether all values from the first copy on have one use, so that only this
  /// chain reads the copies.
  bool isExclusive = true;
};

} // namespace

/// The longest chain that is folded at once. Longer ones are folded in parts,
/// so that time stays linear. Folded chains are shorter than this unless other
/// chains share their copies.
static constexpr unsigned kMaxChain = 16;

/// Whether an operation returns its input with the same type and elements.
static bool isIdentity(Operation *op) {
  if (op->getOperand(0).getType() != op->getResult(0).getType())
    return false;
  auto transpose = dyn_cast<TransposeOp>(op);
  return !transpose || llvm::is_sorted(transpose.getPermutation());
}

static bool isChainLink(Operation *op) {
  return LayoutGraph::isView(op) || LayoutGraph::isPlainRelayout(op);
}

/// Whether chains end at this link: it has several uses, or a use that is no
/// link.
static bool isChainEnd(Operation *link) {
  return !link->hasOneUse() || !isChainLink(*link->user_begin());
}

/// Returns the chain that ends with `op`; std::nullopt for a single operation.
/// A view that cannot be composed with the views before it starts a new chain.
/// The end of the chain before it is then added to `others`.
static std::optional<ViewInfo> getInfo(Operation *op,
                                       SmallVectorImpl<Operation *> &others) {
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
    if (!LayoutGraph::isView(link)) {
      info.copy = link;
    } else if (!info.expression.apply(link)) {
      // The result is a root of its own.
      if (link == op || !isChainEnd(link)) {
        remark::missed(link->getLoc(), layoutRemark("reshape-kept"))
            << "reshape kept: the sizes of the views before it do not divide "
               "its own";
        if (link != chain.back())
          others.push_back(link->getOperand(0).getDefiningOp());
      }
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

static Value createFolded(Operation *op, const ViewInfo &info,
                          ArrayRef<ViewStep> chain, bool needsCopy) {
  OpBuilder builder(op);
  RankedTensorType wanted = tensorType(op->getResult(0));
  Value value = createChain(builder, op->getLoc(), info.root, chain,
                            needsCopy ? RankedTensorType() : wanted);
  if (value.getType() == wanted)
    return value;
  // The user knows the copy by the line that asked for it.
  Location loc = info.copy ? info.copy->getLoc() : op->getLoc();
  return RelayoutOp::create(builder, loc, wanted, value, /*offsets=*/Value());
}

/// Replaces `op` by the shortest equivalent chain from its root, if that is
/// shorter than the current one. Returns whether it did. Adds other ends of
/// chains, old and new, to `others`.
static bool foldChain(Operation *op, SmallVectorImpl<Operation *> &others) {
  Value input = op->getOperand(0), result = op->getResult(0);
  if (isIdentity(op)) {
    Operation *producer = input.getDefiningOp();
    if (producer && isChainLink(producer) && !result.use_empty())
      others.push_back(producer);
    result.replaceAllUsesWith(input);
    eraseUnused(op);
    return true;
  }
  std::optional<ViewInfo> info = getInfo(op, others);
  if (!info || info->length < 2)
    return false;
  RankedTensorType rootType = tensorType(info->root);
  RankedTensorType wanted = tensorType(result);
  StridedLayout seen;
  std::optional<SmallVector<ViewStep>> chain =
      info->expression.getShortestChain(*StridedLayout::get(rootType), seen);
  if (!chain)
    return false;
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
    return false;
  if (info->copy && !needsCopy)
    remark::passed(info->copy->getLoc(), layoutRemark("copy-removed"))
        << "copy removed: views of the tensor before it show the same bytes";
  result.replaceAllUsesWith(createFolded(op, *info, *chain, needsCopy));
  eraseUnused(op);
  return true;
}

/// Folds the chain that ends with `end`, and parts of it that remain separate.
/// Returns whether anything changed.
static bool foldChains(Operation *end) {
  bool changed = false;
  SmallVector<Operation *, 2> ends{end};
  while (!ends.empty())
    changed |= foldChain(ends.pop_back_val(), ends);
  return changed;
}

static bool isLongestChain(Operation *link) {
  unsigned length = 0;
  while (link && isChainLink(link) && ++length < kMaxChain)
    link = link->getOperand(0).getDefiningOp();
  return length == kMaxChain;
}

/// Folds the chains that consist of `links`, which are in program order.
static bool foldChains(ArrayRef<Operation *> links) {
  bool changed = false;
  // Only operations up to the visited one are erased.
  for (Operation *link : links)
    if (isIdentity(link) || isChainEnd(link) || isLongestChain(link))
      changed |= foldChains(link);
  return changed;
}

/// Folds the chains of views and copies that end at an operand of `op`, and
/// those that start at its results.
static void foldChainsAround(Operation *op) {
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp();
        producer && isChainLink(producer))
      foldChains(producer);
  SmallVector<Operation *> links;
  auto addUsers = [&](Operation *producer) {
    llvm::copy_if(producer->getUsers(), std::back_inserter(links), isChainLink);
  };
  addUsers(op);
  for (size_t i = 0; i < links.size(); ++i)
    addUsers(links[i]);
  foldChains(links);
}

/// Folds the regroupings in program order, so that earlier ones are folded
/// first.
static bool foldRegroupings(FunctionOpInterface function) {
  SmallVector<RelayoutOp> regroupings;
  function->walk([&](RelayoutOp op) {
    if (LayoutGraph::isRegrouping(op))
      regroupings.push_back(op);
  });
  bool changed = false;
  // Only operations up to the visited one are erased.
  for (RelayoutOp op : regroupings)
    changed |= foldRegrouping(op);
  return changed;
}

/// Moves the views that a kernel reads below it. Returns whether anything
/// changed.
static bool sinkViews(KernelOpInterface kernel) {
  bool changed = false;
  while (true) {
    Operation *sunk = sinkTransposeBelow(kernel);
    if (!sunk)
      sunk = sinkReshapeBelow(kernel);
    if (!sunk)
      return changed;
    foldChainsAround(sunk);
    kernel = cast<KernelOpInterface>(sunk);
    changed = true;
  }
}

void FoldViews::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  SmallVector<Operation *> links;
  SmallVector<KernelOpInterface> kernels;
  bool changed = normalizeBlocks(function);
  changed |= foldRegroupings(function);
  changed |= eraseDeadOps(function);
  function->walk([&](Operation *op) {
    if (auto kernel = dyn_cast<KernelOpInterface>(op))
      kernels.push_back(kernel);
    else if (isChainLink(op))
      links.push_back(op);
  });
  changed |= foldChains(links);
  for (KernelOpInterface kernel : kernels)
    changed |= sinkViews(kernel);
  if (!changed)
    markAllAnalysesPreserved();
}
