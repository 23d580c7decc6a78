//===- BoundedWait.h - Waits that end ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_BOUNDEDWAIT_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_BOUNDEDWAIT_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Repeats `body`, whose results are the next loop-carried values, while
/// `isPending` holds. Ends after two seconds (fp8moe_kernel.bound_wait).
SmallVector<Value>
createBoundedWait(KernelBuilder &b, ValueRange init,
                  function_ref<Value(ValueRange)> isPending,
                  function_ref<SmallVector<Value>(ValueRange)> body);
/// Polls while `isPending` holds, for two seconds at most.
void createBoundedWait(KernelBuilder &b, function_ref<Value()> isPending);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_BOUNDEDWAIT_H
