//===- KernelCost.h - Predicted cost of kernels -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELCOST_H
#define FP8MOE_KERNELS_MODEL_KERNELCOST_H

#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// The cost of a kernel or a copy whose free tensors have the assumed layouts
/// (the others those of their types) and that has the best tile for them,
/// unless it names one; impossible when it cannot read or write one of them.
Cost estimateKernel(Operation *op, ArrayRef<AssumedLayout> layouts,
                    const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELCOST_H
