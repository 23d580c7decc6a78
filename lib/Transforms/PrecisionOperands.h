//===- PrecisionOperands.h - What matmuls need of operands ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PRECISIONOPERANDS_H
#define FP8MOE_LIB_TRANSFORMS_PRECISIONOPERANDS_H

#include "Regroupings.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

namespace mlir::fp8moe {

/// An operand of a matmul as what a quantization of it reads and writes. The
/// cost model and the rewrite agree on what is shared by asking here.
struct MatmulOperand {
  /// The tensor behind transposes and plain copies.
  PermutedView view;
  /// The dimension of the root that is contracted: the axis of a quantization.
  int64_t axis;
  /// The groups that are contracted one by one; null when slices are whole.
  Value offsets;
  /// Which elements share a scale.
  PrecisionRecipe recipe = PrecisionRecipe::Rowwise;

  /// Operands of a block with equal keys share a quantization.
  using Key = std::tuple<Block *, Value, int64_t, Value, int64_t>;
  Key getKey(Block *block) const {
    return {block, view.root, axis, offsets, static_cast<int64_t>(recipe)};
  }

  bool hasBlocks() const { return recipe == PrecisionRecipe::MXFP8; }
  /// Groups of blocks are rows of what is quantized (X7): a root whose columns
  /// are grouped is transposed before, and the data after.
  bool isTransposed() const { return hasBlocks() && offsets && axis == 1; }

  RankedTensorType getRootType() const {
    return cast<RankedTensorType>(view.root.getType());
  }
};

/// The first or the second operand of `op`, as `recipe` quantizes it. Both may
/// be one tensor.
MatmulOperand getMatmulOperand(MatmulOpInterface op, bool isFirst,
                               PrecisionRecipe recipe);

/// One operation that quantizes `root` to e4m3 along the axes of operands that
/// it is the root of: per group (`offsets`) along that of the first operand, if
/// it is. The data lies with the axis contiguous, as matmul kernels read it.
Operation *createQuantization(OpBuilder &builder, Location loc,
                              ArrayRef<const MatmulOperand *> operands,
                              Value root, Value offsets, Fp8Flavour flavour);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PRECISIONOPERANDS_H
