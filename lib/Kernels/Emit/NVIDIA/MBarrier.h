//===- MBarrier.h - Barriers in shared memory -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// mbarriers: barriers in shared memory that count arrivals of threads and bytes
// of asynchronous copies. Shared memory is addressed by !llvm.ptr<3>.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MBARRIER_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MBARRIER_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// By one thread. A phase of the mbarrier ends after `arrivals` arrivals and
/// after the bytes that they expect.
void createBarrierInit(KernelBuilder &b, Value barrier,
                       KernelBuilder::Operand arrivals);
/// Makes initialised mbarriers visible to asynchronous copies and to the
/// cluster. A barrier of the block must follow.
void createBarrierInitFence(KernelBuilder &b);
void createArrive(KernelBuilder &b, Value barrier);
/// Arrives, and expects `bytes` of copies in the same phase.
void createArriveExpecting(KernelBuilder &b, Value barrier,
                           KernelBuilder::Operand bytes);
/// Waits for the end of the phase with this parity (i32, 0 or 1). The wait is
/// bounded (BoundedWait.h).
void createBarrierWait(KernelBuilder &b, Value barrier, Value parity);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MBARRIER_H
