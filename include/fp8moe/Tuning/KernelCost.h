//===- KernelCost.h - Predicted cost of kernels and copies ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_KERNELCOST_H
#define FP8MOE_TUNING_KERNELCOST_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Tuning/Common/MinSum.h"

namespace mlir::fp8moe {

/// Rows that a dynamic token count stands for in predictions: a large training
/// microbatch. Only ratios between choices matter, and they hardly depend on
/// it.
constexpr int64_t kNominalTokens = 16384;

/// Jagged groups or experts that an unknown number of them stands for: those of
/// one device when experts are spread over devices.
constexpr int64_t kNominalSegments = 8;
/// What a size, a number of slices with a scale each, and a number of elements
/// count at most in the models: more than any device holds, and so little that
/// no time in picoseconds overflows.
constexpr int64_t kMostModelledSize = int64_t(1) << 26;
constexpr int64_t kMostModelledSlices = int64_t(1) << 40;
constexpr int64_t kMostModelledElements = int64_t(1) << 46;

/// Bytes of the whole sectors that a walk over a tensor touches, once.
/// `layout` is that of the tensor during the walk.
int64_t estimateSectorBytes(RankedTensorType type, const StridedLayout &layout,
                            const TensorAccess &access,
                            const TargetInfo &target);

/// The least number of bytes of a tensor.
int64_t estimateTensorBytes(RankedTensorType type);

/// The cost of moving so many bytes, one launch included.
Cost estimateTraffic(int64_t bytes, const TargetInfo &target);

/// A layout that a kernel's operand or result has in a prediction.
struct AssumedLayout {
  Value tensor;
  const StridedLayout *layout;
};

/// The layout of a tensor in a prediction: the assumed one, or that of its
/// type; none when it is not strided.
std::optional<StridedLayout> getAssumedLayout(Value tensor,
                                              ArrayRef<AssumedLayout> layouts);

/// The cost of a kernel or a copy whose free tensors have the assumed layouts
/// (the others those of their types) and that has the best tile for them,
/// unless it names one; impossible when it cannot read or write one of them.
Cost estimateKernel(Operation *op, ArrayRef<AssumedLayout> layouts,
                    const TargetInfo &target);

/// The cost of copying a tensor from one layout to another.
Cost estimateCopy(RankedTensorType type, const StridedLayout &from,
                  const StridedLayout &to, const TargetInfo &target);

/// The cost of a copy, which may pad or pack jagged groups, or move block
/// scales to or from tiles; nothing when it moves no byte.
Cost estimateRelayout(Operation *op, ArrayRef<AssumedLayout> layouts,
                      const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_KERNELCOST_H
