//===- Views.h - Views of tensors and their roots ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_VIEWS_H
#define FP8MOE_DIALECT_FP8MOE_IR_VIEWS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

namespace mlir::fp8moe {

inline RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Whether `op` is a view of its operand and moves no byte.
inline bool movesNothing(Operation *op) {
  return isa<TransposeOp, ReshapeOp>(op) || isNoopRelayout(op);
}

/// Follows first operands from `value` upwards, as long as `isSkipped` accepts
/// the defining operation. Returns the tensor at which it stops.
inline Value skipOps(Value value, function_ref<bool(Operation *)> isSkipped) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isSkipped(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// A tensor seen through transposes: dimension i is dimension `permutation[i]`
/// of `root`.
struct PermutedView {
  Value root;
  SmallVector<int64_t> permutation;

  SmallVector<int64_t> getShape() const {
    return permute(tensorType(root).getShape(), permutation);
  }
};

/// Returns `value` as a view through transposes and the copies that `isCopy`
/// accepts.
inline PermutedView skipPermutations(Value value,
                                     function_ref<bool(Operation *)> isCopy) {
  PermutedView view{value, identityPermutation(tensorType(value).getRank())};
  view.root = skipOps(value, [&](Operation *op) {
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      view.permutation =
          composePermutations(transpose.getPermutation(), view.permutation);
      return true;
    }
    return isCopy(op);
  });
  return view;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_VIEWS_H
