//===- Regroupings.h - Padding and packing as arithmetic --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Analyses of copies that pad or pack jagged groups, or move block scales to or
// from tiles (docs/design/layouts.md, "What composes with what"). Between two
// of them there may be transposes and plain copies, which keep what they
// regroup.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H
#define FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H

#include "PlacementMemo.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {

/// The tensor of which `value` is a view, through all transposes and plain
/// copies.
PermutedView skipPermutations(Value value);

/// The tensor of which `value` is itself or a plain copy.
Value skipCopies(Value value);

/// Calls `fuse` for each two operations of a kind in one block that read one
/// tensor or plain copies of it. Where it succeeds, it has erased both. Returns
/// how many pairs there were.
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

/// The uses of `root`, in the order of the use lists.
SmallVector<PermutedUse> collectPermutedUses(Value root);

/// A copy between packed and padded groups of a strided tensor.
struct Regrouping {
  RelayoutOp op;
  bool pads;
  int64_t dim, pad;

  Value getOffsets() const { return RelayoutOp(op).getOffsets(); }
};

std::optional<Regrouping> matchRegrouping(Operation *op);

/// A copy that packs a tensor which was padded alike: dimension i of the result
/// is dimension `permutation[i]` of the padding.
struct RepackedView {
  Regrouping padding;
  SmallVector<int64_t> permutation;
};

/// The padding that `packing` undoes, but for rows of no group, which are zero
/// then.
std::optional<RepackedView> matchRepacked(Regrouping packing);

/// A copy of block scales to tiles or from them.
bool isToTiles(Operation *op);
bool isFromTiles(Operation *op);

/// The type of a tensor whose view through a permutation has the type `seen`.
RankedTensorType pullBack(RankedTensorType seen, ArrayRef<int64_t> permutation);

/// Lets who reads `op` read `view`, and a plain copy when that lies otherwise.
void replaceUsesWithView(RelayoutOp op, const PermutedView &view);

/// As above, and erases `op` and the operations that only it reads.
void replaceWithView(RelayoutOp op, const PermutedView &view);

/// Erases operations that nobody reads, from `op` upwards.
void eraseDeadChain(Operation *op);

/// Erases all operations of `function` that nobody reads.
void eraseDeadOps(FunctionOpInterface function);

/// Makes one regrouping of several that undo each other, or none. True when
/// `op` was replaced.
bool foldRegrouping(RelayoutOp op);

/// Lets packings of one tensor, padded in several ways, read one padding where
/// that is predicted to take less time. Returns how many do.
unsigned sharePaddings(FunctionOpInterface function, const TargetInfo &target);

/// Lets one copy serve several regroupings of one tensor in the same groups
/// where layouts are placed in less predicted time then. True when something
/// changed.
bool mergeRegroupings(FunctionOpInterface function, const TargetInfo &target,
                      PlacementMemo &memo);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_REGROUPINGS_H
