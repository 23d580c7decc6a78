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

/// The clock that measures a wait.
enum class WaitClock {
  /// The multiprocessor's cycles. To read them costs next to nothing.
  Cycles,
  /// The device's timer in nanoseconds. Slow to read; for waits that read it
  /// only after a first attempt.
  GlobalTimer
};

/// Repeats `body`, whose results are the next values, while `isPending`. Every
/// kernel ends within milliseconds, so a wait of more than two seconds is a
/// deadlock: it stops the kernel with an error instead of hanging the device.
SmallVector<Value>
createBoundedWait(KernelBuilder &b, WaitClock clock, ValueRange init,
                  function_ref<Value(ValueRange)> isPending,
                  function_ref<SmallVector<Value>(ValueRange)> body);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_BOUNDEDWAIT_H
