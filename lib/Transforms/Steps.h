//===- Steps.h - Functions of passes on tensors -----------------*- C++ -*-===//
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

/// Erases unreachable blocks, orders blocks after those that dominate them, and
/// returns whether anything changed. Only in unreachable blocks can views and
/// copies form cycles, on which walks along chains would not end. Passes that
/// walk a function rely on operands' producers coming first.
bool normalizeBlocks(FunctionOpInterface function);

/// Exchanges the operands of matmuls that write columns of their results, which
/// GPU kernels do not support. Returns whether any matmul changed.
bool exchangeOperands(FunctionOpInterface function, const TargetInfo &target);

/// Lets a kernel that reads a reshape read the reshape's input, if the program
/// views the results back into the input's shape. The results are reshaped
/// instead. Returns the new kernel, or null if nothing changed.
Operation *sinkReshapeBelow(KernelOpInterface kernel);

/// Lets a kernel that works on slices of a transposed tensor, or of copies of
/// one, read the tensor itself. The results are transposed instead. Returns the
/// new kernel, or null if nothing changed.
Operation *sinkTransposeBelow(KernelOpInterface kernel);

/// Replaces scales, casts and quantizations by results of earlier ones in the
/// same block that have the same values. A result in another layout is copied,
/// if predicted to be faster. Returns the number of replaced operations.
/// `explain` emits remarks on those that stay.
unsigned mergeQuantizations(FunctionOpInterface function,
                            const TargetInfo &target, bool explain);

/// Whether MX matmuls are expanded to bf16 on the target: a GPU with OCP FP8
/// whose matrix instructions do not support block scales.
inline bool expandsMXMatmuls(const TargetInfo &target) {
  return target.isGPU() && target.fp8 == Fp8Flavour::FN &&
         !target.has(Feature::BlockScaledWaves);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_STEPS_H
