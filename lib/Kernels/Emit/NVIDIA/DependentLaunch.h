//===- DependentLaunch.h - Programmatic dependent launch --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEPENDENTLAUNCH_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEPENDENTLAUNCH_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Triggers the dependent launch: blocks of the next kernel in the stream may
/// begin as soon as there is room, if its launch is programmatic.
void createDependentLaunchTrigger(KernelBuilder &b);
/// Waits until the kernels that this one depends on have ended and their writes
/// are visible: all before it in the stream, if each of them waits as well.
/// Every thread of a programmatic launch waits before it reads or writes global
/// memory.
void createDependentLaunchWait(KernelBuilder &b);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEPENDENTLAUNCH_H
