//===- MemoryCost.h - Predicted cost of moving tensors ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_MEMORYCOST_H
#define FP8MOE_KERNELS_MODEL_MEMORYCOST_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"

namespace mlir::fp8moe {

/// Returns the bytes of all sectors that one pass over a tensor touches, if the
/// tensor has the given layout.
int64_t estimateSectorBytes(RankedTensorType type, const StridedLayout &layout,
                            const TensorAccess &access,
                            const TargetInfo &target);

/// Returns the size of a tensor in bytes, with nominal values for unknown
/// sizes.
int64_t estimateTensorBytes(RankedTensorType type);

/// Returns the cost of moving `bytes` at copy bandwidth: estimateBytes without
/// a launch, estimateTraffic with one.
Cost estimateBytes(int64_t bytes, const TargetInfo &target);
Cost estimateTraffic(int64_t bytes, const TargetInfo &target);

/// Returns the access of a kernel that goes over a whole tensor in memory
/// order.
TensorAccess walkAll(RankedTensorType type);

/// Returns the cost of a launch that converts one tensor into another of the
/// same shape, element by element, and moves `otherBytes` besides.
Cost estimateConversion(RankedTensorType input, const StridedLayout &from,
                        RankedTensorType result, const StridedLayout &to,
                        int64_t otherBytes, const TargetInfo &target);

/// A layout that a prediction assumes for an operand or result.
struct AssumedLayout {
  Value tensor;
  const StridedLayout *layout;
};

/// Returns the layout of a tensor in a prediction: the assumed one, or that of
/// its type. Returns std::nullopt if the latter is not strided.
std::optional<StridedLayout> getAssumedLayout(Value tensor,
                                              ArrayRef<AssumedLayout> layouts);

/// Returns the cost of copying a tensor from one layout to another.
Cost estimateCopy(RankedTensorType type, const StridedLayout &from,
                  const StridedLayout &to, const TargetInfo &target);

/// The work of a copy, which may pad or pack jagged groups. Layouts that are
/// not strided are std::nullopt.
struct CopyWork : KernelWorkBase<CopyWork> {
  RankedTensorType input, result;
  std::optional<StridedLayout> from, to;

  static CopyWork get(Operation *op, ArrayRef<AssumedLayout> layouts);
};

/// Returns the cost of a copy, which may pad or pack jagged groups, or move
/// block scales to or from tiles. The cost is zero if no byte moves.
Cost estimateRelayout(const CopyWork &work, const TargetInfo &target);
Cost estimateRelayout(Operation *op, ArrayRef<AssumedLayout> layouts,
                      const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_MEMORYCOST_H
