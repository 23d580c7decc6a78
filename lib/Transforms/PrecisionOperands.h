//===- PrecisionOperands.h - Quantization of matmul operands ----*- C++ -*-===//
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

/// A matmul operand as the input of a quantization. The cost model and the
/// rewrite both use this, so that they agree on which quantizations are shared.
struct MatmulOperand {
  /// The root behind transposes and plain copies, with the permutation.
  PermutedView view;
  /// The contracted dimension of the root, which is the axis of the
  /// quantization.
  int64_t axis;
  /// The groups along the axis (K-grouped matmuls); null if slices are not cut
  /// by groups.
  Value offsets;
  /// The recipe, which decides the elements that share a scale.
  PrecisionRecipe recipe = PrecisionRecipe::Rowwise;

  /// Operands in one block with equal keys share a quantization.
  using Key = std::tuple<Block *, Value, int64_t, Value, int64_t>;
  Key getKey(Block *block) const {
    return {block, view.root, axis, offsets, static_cast<int64_t>(recipe)};
  }

  bool hasBlocks() const { return recipe == PrecisionRecipe::MXFP8; }
  /// Whether the root is transposed before quantization and the data after.
  /// Groups of block scales must be rows of the quantized tensor (X7), so a
  /// root with groups of columns is transposed.
  bool isTransposed() const { return hasBlocks() && offsets && axis == 1; }

  RankedTensorType getRootType() const {
    return cast<RankedTensorType>(view.root.getType());
  }
};

/// Returns the first or the second operand of `op`, as `recipe` quantizes it.
/// Both may be the same tensor.
MatmulOperand getMatmulOperand(MatmulOpInterface op, bool isFirst,
                               PrecisionRecipe recipe);

/// Creates one operation that quantizes `root`, the root of all `operands`, to
/// e4m3 along their axes. Scales of the first axis are per group of `offsets`
/// if that operand has groups. The axis is contiguous in the data, as matmul
/// kernels read it.
Operation *createQuantization(OpBuilder &builder, Location loc,
                              ArrayRef<const MatmulOperand *> operands,
                              Value root, Value offsets, Fp8Flavour flavour);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PRECISIONOPERANDS_H
