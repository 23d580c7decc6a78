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

/// Returns the predicted cost of a kernel or copy, with the tile that it names
/// or else its best one. Tensors whose layout is free have the assumed layouts,
/// others those of their types. The cost is impossible if the kernel cannot
/// read or write a layout.
Cost estimateKernel(Operation *op, ArrayRef<AssumedLayout> layouts,
                    const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELCOST_H
