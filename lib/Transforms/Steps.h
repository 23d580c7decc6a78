//===- Steps.h - Steps that passes on tensors take --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_STEPS_H
#define FP8MOE_LIB_TRANSFORMS_STEPS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

/// Erases the blocks that a region's entry does not reach, lists each block
/// behind those that dominate it, and returns whether anything changed. Only in
/// unreachable blocks may views and copies read themselves in a cycle, which
/// walks along chains would never leave; and passes that go through a function
/// rely on it that what an operation reads comes before it.
bool normalizeBlocks(FunctionOpInterface function);

/// Exchanges the operands of matmuls that write columns of their results, as no
/// kernel of a GPU does. Returns whether there were any.
bool exchangeOperands(FunctionOpInterface function, const TargetInfo &target);

/// Lets a kernel that reads a reshape of a tensor read the tensor itself, when
/// the program views the results back into the tensor's shape; its results are
/// reshaped instead. Returns the kernel that took the place of `kernel`, or
/// null when nothing changed.
Operation *sinkReshapeBelow(KernelOpInterface kernel);

/// Lets a kernel that works on slices of a transposed tensor, or of copies of
/// one, read the tensor itself; its results are transposed instead. Returns the
/// kernel that took the place of `kernel`, or null when nothing changed.
Operation *sinkTransposeBelow(KernelOpInterface kernel);

/// Replaces scales, casts and quantizations by the results of earlier ones of
/// their block that compute the same values, and copies of these where they lie
/// otherwise and that takes less time. Returns how many were replaced;
/// `explain`: says why others were not.
unsigned mergeQuantizations(FunctionOpInterface function,
                            const TargetInfo &target, bool explain);

/// Whether MX matmuls are expanded to bf16 on the target: a GPU with OCP FP8
/// whose matrix instructions take no scales of blocks.
inline bool expandsMXMatmuls(const TargetInfo &target) {
  return target.isGPU() && target.fp8 == Fp8Flavour::FN &&
         !target.has(Feature::BlockScaledWaves);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_STEPS_H
