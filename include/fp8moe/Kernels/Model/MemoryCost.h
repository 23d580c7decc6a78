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

/// Bytes of the whole sectors that a walk over a tensor touches, once.
/// `layout` is that of the tensor during the walk.
int64_t estimateSectorBytes(RankedTensorType type, const StridedLayout &layout,
                            const TensorAccess &access,
                            const TargetInfo &target);

/// The least number of bytes of a tensor.
int64_t estimateTensorBytes(RankedTensorType type);

/// The cost of moving so many bytes, without a launch and with one.
Cost estimateBytes(int64_t bytes, const TargetInfo &target);
Cost estimateTraffic(int64_t bytes, const TargetInfo &target);

/// A kernel that reads or writes all of a tensor, in whatever order it lies.
TensorAccess walkAll(RankedTensorType type);

/// The cost of a launch that reads one tensor and writes another of the same
/// shape, element by element, and moves `otherBytes` besides.
Cost estimateConversion(RankedTensorType input, const StridedLayout &from,
                        RankedTensorType result, const StridedLayout &to,
                        int64_t otherBytes, const TargetInfo &target);

/// A layout that a kernel's operand or result has in a prediction.
struct AssumedLayout {
  Value tensor;
  const StridedLayout *layout;
};

/// The layout of a tensor in a prediction: the assumed one, or that of its
/// type; none when it is not strided.
std::optional<StridedLayout> getAssumedLayout(Value tensor,
                                              ArrayRef<AssumedLayout> layouts);

/// The cost of copying a tensor from one layout to another.
Cost estimateCopy(RankedTensorType type, const StridedLayout &from,
                  const StridedLayout &to, const TargetInfo &target);

/// A copy, which may pad or pack jagged groups. Layouts are none where they are
/// not strided.
struct CopyWork : KernelWorkBase<CopyWork> {
  RankedTensorType input, result;
  std::optional<StridedLayout> from, to;

  static CopyWork get(Operation *op, ArrayRef<AssumedLayout> layouts);
};

/// The cost of a copy, which may pad or pack jagged groups, or move block
/// scales to or from tiles; nothing when it moves no byte.
Cost estimateRelayout(const CopyWork &work, const TargetInfo &target);
Cost estimateRelayout(Operation *op, ArrayRef<AssumedLayout> layouts,
                      const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_MEMORYCOST_H
