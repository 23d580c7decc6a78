//===- SizeBuilder.h - Arithmetic on sizes ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_SIZEBUILDER_H
#define FP8MOE_DIALECT_FP8MOE_IR_SIZEBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::fp8moe {

/// Returns the size of one dimension of an operand, as an index value or
/// attribute.
using GetDimFn =
    llvm::function_ref<OpFoldResult(TypedValue<RankedTensorType>, int64_t)>;

/// The sizes of all results of an operation: one list per result, with one size
/// per dimension.
using ResultSizes = SmallVector<SmallVector<OpFoldResult>>;

/// Arithmetic on sizes, to compute the sizes of one tensor from those of
/// others. Folds constants, and otherwise creates `arith` operations on index.
class SizeBuilder {
public:
  SizeBuilder(OpBuilder &builder, Location loc, GetDimFn getDim = nullptr)
      : builder(builder), loc(loc), getDim(getDim) {}

  OpFoldResult constant(int64_t value);
  /// Returns the size of one dimension: static from the type, dynamic through
  /// `getDim`.
  OpFoldResult dim(TypedValue<RankedTensorType> value, int64_t i);
  SmallVector<OpFoldResult> shape(TypedValue<RankedTensorType> value);
  OpFoldResult add(OpFoldResult a, OpFoldResult b);
  OpFoldResult mul(OpFoldResult a, OpFoldResult b);
  OpFoldResult div(OpFoldResult a, int64_t divisor);
  OpFoldResult rem(OpFoldResult a, int64_t divisor);
  OpFoldResult ceilDiv(OpFoldResult a, int64_t divisor);
  /// Returns round_up(size + groups * (pad - 1), pad).
  OpFoldResult paddedExtent(OpFoldResult size, OpFoldResult groups,
                            int64_t pad);
  /// Returns the dense strides in elements for `sizes` and the order of `type`,
  /// which must be strided.
  SmallVector<OpFoldResult> denseStrides(RankedTensorType type,
                                         ArrayRef<OpFoldResult> sizes);
  /// Returns the sizes of getBufferType(type) for a tensor of size `sizes`.
  SmallVector<OpFoldResult> bufferSizes(RankedTensorType type,
                                        ArrayRef<OpFoldResult> sizes);

private:
  OpBuilder &builder;
  Location loc;
  GetDimFn getDim;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_SIZEBUILDER_H
