//===- DeviceMemory.h - Accesses to global memory ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEVICEMEMORY_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEVICEMEMORY_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Loads four words (vector<4xi32>) at the scope of the device. Each is atomic
/// by itself (Emit/AtomicWords.h); an acquiring load acquires with each.
Value createRelaxedLoadWords(KernelBuilder &b, Value pointer);
Value createAcquireLoadWords(KernelBuilder &b, Value pointer);

/// The sector, the smallest unit that the L2 cache fetches from memory.
constexpr int64_t kSectorBytes = 32;
/// Fetches the sector of `pointer` to the L2 cache. Later writes of the kernels
/// before this one go through that cache, so the prefetch may come before they
/// have ended.
void createSectorPrefetch(KernelBuilder &b, Value pointer);

/// Adds four f32 to those at `pointer`, aligned to 16 bytes, in the L2 cache.
/// Does not wait for it.
void createGlobalAdd(KernelBuilder &b, Value pointer, ArrayRef<Value> values);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_DEVICEMEMORY_H
