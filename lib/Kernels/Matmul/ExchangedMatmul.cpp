//===- ExchangedMatmul.cpp - Matmuls that compute their transpose ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Matmul/ExchangedMatmul.h"

#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether the operation of this function that computes the scales rounds them
/// to powers of two (Q3).
static bool arePowersOfTwo(Value scales) {
  auto isViewOrCopy =
      llvm::IsaPred<TransposeOp, ReshapeOp, ContiguousOp, RelayoutOp>;
  Operation *op = skipOps(scales, isViewOrCopy).getDefiningOp();
  return op && llvm::TypeSwitch<Operation *, bool>(op)
                   .Case<ScaleOp, JaggedScaleOp, DynamicQuantizeOp,
                         JaggedDynamicQuantizeOp>([](auto quantize) {
                     return quantize.getRounding() == ScaleRounding::Pow2;
                   })
                   .Default(false);
}

StringRef fp8moe::explainNotExchangeable(MatmulOpInterface op) {
  if (op.isMGrouped() && !op.isDense())
    return "its groups are rows of the result, and no matmul has groups of "
           "columns";
  if (op.getTilesAttr())
    return "its tile was chosen for this order of the operands";
  // Scales of blocks belong to the elements, whatever the order (G9).
  if (!op.getScaleA() || hasBlockScales(op))
    return "";
  if (!op.getScaleB())
    return "only the first operand of a matmul may be the one with scales";
  if (!arePowersOfTwo(op.getScaleA()) || !arePowersOfTwo(op.getScaleB()))
    return "with exchanged operands the product would be rounded in another "
           "order, and its scales are not known to be powers of two; compute "
           "them in this function with 'rounding pow2'";
  return "";
}
