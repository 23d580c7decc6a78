//===- WaveSync.h - What waves wait for -------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_AMD_WAVESYNC_H
#define FP8MOE_LIB_KERNELS_EMIT_AMD_WAVESYNC_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// More loads than a wave may have under way.
inline constexpr int64_t kAnyLoads = 63;

/// Waits until at most so many of the wave's loads from memory, and of its
/// accesses to shared memory, are under way.
void createWaitCount(KernelBuilder &b, int64_t loads, int64_t sharedAccesses);

/// The waves of the workgroup meet, and wait for nothing else: what they wrote
/// must have been waited for. Compilers move nothing across it.
void createWaveBarrier(KernelBuilder &b);

/// No compiler moves instructions across this, or accesses to memory.
void createSchedulingFence(KernelBuilder &b);

/// The wave's instructions go first (1), or in turn with those of the others
/// (0).
void createPriority(KernelBuilder &b, int64_t priority);

/// `value`, a number of the wave (i32, uniform), but opaque to compilers: loops
/// up to it are not unrolled.
Value createOpaqueUniform(KernelBuilder &b, Value value);

/// `condition` (i1), which compilers take to be false almost always: they move
/// nothing from a branch that it guards to before the branch.
Value createUnlikely(KernelBuilder &b, Value condition);

/// `value` (i32) of one lane (i32, uniform), as a number of the wave.
Value createReadLane(KernelBuilder &b, Value value, Value lane);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_AMD_WAVESYNC_H
