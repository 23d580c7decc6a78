//===- MergeRegroupings.cpp - One copy for what is regrouped alike --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two copies in one block may pad or pack one tensor in the same groups, or
// move it to tiles or back. They have the same values and only differ in the
// order of dimensions. To placement they are two roots, so no reader of one
// uses the other. This file replaces
//
//   * the later copy by a view of the earlier one, with a plain copy if layouts
//     differ, or
//   * a plain copy of one by a view of the other, if that has its layout.
//
// It chooses the replacement with the least predicted time after placement, if
// that is less than before.
//
//===----------------------------------------------------------------------===//

#include "PlacementProblem.h"
#include "Regroupings.h"
#include "Steps.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// A key of regroupings with the same values in any order: the block, the
/// tensor, its offsets if any, and the row-major type of the result in the
/// tensor's order of dimensions.
using Form = std::tuple<Block *, Value, Value, Type>;

/// A regrouping of a transposed tensor: dimension i of `op` is dimension
/// `permutation[i]` of the tensor.
struct Regrouped {
  RelayoutOp op;
  SmallVector<int64_t> permutation;
};

/// A copy (`replaced`) that can become `view` of a regrouping, with a plain
/// copy if its layout differs.
struct Merge {
  Value replaced;
  PermutedView view;
};
} // namespace

/// Returns the form of `op`, if it is a regrouping.
static std::optional<std::pair<Form, Regrouped>> matchForm(RelayoutOp op) {
  if (!LayoutGraph::isRegrouping(op))
    return std::nullopt;
  PermutedView tensor = skipPermutations(op.getInput());
  RankedTensorType type = op.getType();
  if (std::optional<StridedLayout> layout = StridedLayout::get(type)) {
    type = pullBack(type, tensor.permutation);
    StridedLayout rowMajor = StridedLayout::getDense(
        type.getShape(), identityPermutation(type.getRank()));
    rowMajor.groups = StridedLayout::get(type)->groups;
    type = rowMajor.getType(type.getShape(), type.getElementType());
  } else if (!llvm::is_sorted(tensor.permutation)) {
    return std::nullopt;
  }
  return std::pair(Form{op->getBlock(), tensor.root, op.getOffsets(), type},
                   Regrouped{op, tensor.permutation});
}

/// Returns the permutation that shows `kept` as `view` shows `replaced`.
static SmallVector<int64_t> showThrough(const Regrouped &kept,
                                        const Regrouped &replaced,
                                        ArrayRef<int64_t> view) {
  return composePermutations(invertPermutation(kept.permutation),
                             composePermutations(replaced.permutation, view));
}

/// Whether `kept`, permuted, has the same layout as `copy`.
static bool liesAs(RelayoutOp kept, ArrayRef<int64_t> permutation,
                   RelayoutOp copy) {
  std::optional<StridedLayout> layout = StridedLayout::get(kept.getType());
  return layout && transposeLayout(*layout, permutation)
                       .isSameAs(*StridedLayout::get(copy.getType()),
                                 copy.getType().getShape());
}

static bool isBefore(RelayoutOp op, Operation *other) {
  Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*other);
  return ancestor && op->isBeforeInBlock(ancestor);
}

/// Collects the plain copies of `regrouped` that have the layout of `kept`.
static void collectCopiesLike(Regrouped &kept, Regrouped &regrouped,
                              SmallVectorImpl<Merge> &merges) {
  walkPermutedUses(regrouped.op, [&](const PermutedUse &use) {
    auto copy = dyn_cast<RelayoutOp>(use.operand->getOwner());
    if (!copy || !LayoutGraph::isPlainRelayout(copy))
      return;
    SmallVector<int64_t> shown = showThrough(kept, regrouped, use.permutation);
    if (isBefore(kept.op, copy) && liesAs(kept.op, shown, copy))
      merges.push_back({copy, {kept.op, shown}});
  });
}

/// Returns the possible merges for each form. Only one merge per form can be
/// applied at a time.
static std::vector<SmallVector<Merge>>
collectMerges(FunctionOpInterface function) {
  llvm::MapVector<Form, SmallVector<Regrouped, 2>> forms;
  function->walk([&](RelayoutOp op) {
    if (auto match = matchForm(op))
      forms[match->first].push_back(std::move(match->second));
  });
  std::vector<SmallVector<Merge>> result;
  for (auto &[form, regroupings] : forms) {
    SmallVector<Merge> merges;
    Regrouped first = regroupings.front();
    for (Regrouped other : llvm::drop_begin(regroupings))
      merges.push_back(
          {other.op,
           {first.op,
            showThrough(first, other,
                        identityPermutation(other.op.getType().getRank()))}});
    for (Regrouped &kept : regroupings)
      for (Regrouped &other : regroupings)
        if (kept.op != other.op)
          collectCopiesLike(kept, other, merges);
    if (!merges.empty())
      result.push_back(std::move(merges));
  }
  return result;
}

/// Returns merges of different forms that together reduce the predicted time.
static SmallVector<Merge> findPayingMerges(FunctionOpInterface function,
                                           PlacementTrials &trials) {
  auto tryMerges = [&](ArrayRef<Merge> merges) {
    return trials.tryChange([&](IRMapping &clone) {
      for (const Merge &merge : merges)
        replaceUsesWithView(
            clone.lookup(merge.replaced).getDefiningOp<RelayoutOp>(),
            {clone.lookup(merge.view.root), merge.view.permutation});
    });
  };
  std::vector<SmallVector<Merge>> forms = collectMerges(function);
  if (forms.empty() || trials.areOver())
    return {};
  const Cost before = trials.getCost();
  SmallVector<Merge> paying;
  Merge most;
  Cost least = before;
  for (ArrayRef<Merge> merges : forms) {
    if (trials.areOver()) {
      remark::missed(merges.front().replaced.getLoc(),
                     layoutRemark("regrouping-not-merged"))
          << "not tried whether another regrouping of the same tensor serves "
             "here and further down: the function has too many of them";
      break;
    }
    const Merge *best = nullptr;
    Cost leastOfForm = before;
    for (const Merge &merge : merges) {
      Cost cost = tryMerges(merge);
      if (cost < leastOfForm) {
        leastOfForm = cost;
        best = &merge;
      }
    }
    if (!best)
      continue;
    paying.push_back(*best);
    if (leastOfForm < least) {
      least = leastOfForm;
      most = *best;
    }
  }
  // One merge may spare what another one needs.
  if (paying.size() > 1 && !(tryMerges(paying) < least))
    return {most};
  return paying;
}

bool fp8moe::mergeRegroupings(FunctionOpInterface function,
                              const TargetInfo &target, PlacementMemo &memo) {
  PlacementTrials trials(function, target, memo);
  bool changed = false;
  // A merge may take the operations of others with it, so all are collected
  // anew.
  while (true) {
    SmallVector<Merge> merges = findPayingMerges(function, trials);
    if (merges.empty())
      return changed;
    for (const Merge &merge : merges) {
      remark::passed(merge.replaced.getLoc(), layoutRemark("regrouping-merged"))
          << "regrouping replaced: another one of the same tensor holds the "
             "same values";
      replaceUsesWithView(merge.replaced.getDefiningOp<RelayoutOp>(),
                          merge.view);
    }
    eraseDeadOps(function);
    changed = true;
  }
}
