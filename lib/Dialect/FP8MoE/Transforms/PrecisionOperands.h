//===- PrecisionOperands.h - What matmuls need of operands ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_PRECISIONOPERANDS_H
#define FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_PRECISIONOPERANDS_H

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

  /// Operands of a block with equal keys share a quantization.
  using Key = std::tuple<Block *, Value, int64_t, Value>;
  Key getKey(Block *block) const { return {block, view.root, axis, offsets}; }

  RankedTensorType getRootType() const {
    return cast<RankedTensorType>(view.root.getType());
  }
  /// The dimension of the operand that a dimension of the root is.
  SmallVector<int64_t> getInverse() const;
};

/// The first or the second operand of `op`. Both may be one tensor.
MatmulOperand getMatmulOperand(MatmulOpInterface op, bool isFirst);

/// Types of the quantized data and of the scales, for a root of this shape. The
/// data lies with the axis contiguous, as matmul kernels read it.
struct QuantizedTypes {
  RankedTensorType data, scales;

  static QuantizedTypes get(const MatmulOperand &operand,
                            ArrayRef<int64_t> rootShape, Type fp8);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_PRECISIONOPERANDS_H
