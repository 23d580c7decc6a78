//===- Regroupings.h - Padding and packing as arithmetic --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Analyses and folds of regroupings: copies that pad or pack jagged groups, or
// move block scales to or from tiles (docs/design/layouts.md, "What composes
// with what"). Transposes and plain copies, which keep groups and tiles as they
// are, may stand between two regroupings.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H
#define FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H

#include "PlacementMemo.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {

/// Returns `value` as a view through all transposes and plain copies.
PermutedView skipPermutations(Value value);

/// Returns the tensor that `value` is a plain copy of, or `value` itself.
Value skipCopies(Value value);

/// Calls `fuse` for each pair of OpTy in one block that read the same tensor or
/// plain copies of it. If `fuse` succeeds, it has erased both operations.
/// Returns the number of fused pairs.
template <typename OpTy>
unsigned fusePairs(FunctionOpInterface function,
                   function_ref<bool(OpTy, OpTy)> fuse) {
  llvm::MapVector<std::pair<Block *, Value>, SmallVector<OpTy, 2>> groups;
  function->walk([&](OpTy op) {
    groups[{op->getBlock(), skipCopies(op.getInput())}].push_back(op);
  });
  unsigned numFused = 0;
  for (auto &[place, ops] : groups)
    for (size_t i = 0; i < ops.size(); ++i)
      for (size_t j = i + 1; j < ops.size() && ops[i]; ++j)
        if (ops[j] && fuse(ops[i], ops[j])) {
          ops[i] = ops[j] = OpTy();
          ++numFused;
        }
  return numFused;
}

/// An operand that reads a tensor through transposes and plain copies.
struct PermutedUse {
  OpOperand *operand;
  SmallVector<int64_t> permutation;
};

/// Visits the uses of `root`, of its transposes and of its plain copies, in the
/// order of the use lists.
void walkPermutedUses(Value root,
                      function_ref<void(const PermutedUse &)> visit);

/// Returns the uses other than transposes and plain copies.
SmallVector<PermutedUse> collectPermutedUses(Value root);

/// A regrouping of a strided tensor: a copy that pads or packs its groups.
struct Regrouping {
  RelayoutOp op;
  bool pads;
  int64_t dim, pad;

  Value getOffsets() const { return RelayoutOp(op).getOffsets(); }
};

std::optional<Regrouping> matchRegrouping(Operation *op);

/// A copy that packs a tensor after it was padded: dimension i of the result is
/// dimension `permutation[i]` of the padding.
struct RepackedView {
  Regrouping padding;
  SmallVector<int64_t> permutation;
};

/// Returns the padding that `packing` undoes, if any. The pair still changes
/// rows outside all groups: they become zero.
std::optional<RepackedView> matchRepacked(Regrouping packing);

/// Whether `op` copies block scales to tiles, or back.
bool isToTiles(Operation *op);
bool isFromTiles(Operation *op);

/// Returns the type of a tensor whose view through `permutation` has the type
/// `seen`.
RankedTensorType pullBack(RankedTensorType seen, ArrayRef<int64_t> permutation);

/// Replaces the uses of `op` by `view`, with a plain copy of it if the type
/// differs.
void replaceUsesWithView(RelayoutOp op, const PermutedView &view);

/// As above, and erases `op` and the operations that only it reads.
void replaceWithView(RelayoutOp op, const PermutedView &view);

/// Erases `op` if it is dead, then its producer if that is dead now, and so on
/// upwards.
void eraseDeadChain(Operation *op);

/// Erases all dead operations of `function`. Returns whether there were any.
bool eraseDeadOps(FunctionOpInterface function);

/// Folds `op` with an earlier regrouping that it undoes. Returns whether `op`
/// was replaced.
bool foldRegrouping(RelayoutOp op);

/// Lets packings of one tensor that was padded in several ways read the same
/// padding, if predicted to be faster. Returns the number of packings that read
/// another padding than before.
unsigned sharePaddings(FunctionOpInterface function, const TargetInfo &target);

/// Replaces regroupings of one tensor in the same groups by one of them, if
/// layout placement then predicts less time. Returns whether anything changed.
bool mergeRegroupings(FunctionOpInterface function, const TargetInfo &target,
                      PlacementMemo &memo);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H
