//===- TensorCopies.h - Asynchronous copies by TMA --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each copy is issued by one thread. Loads report their bytes to an mbarrier;
// stores are committed in groups.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_TENSORCOPIES_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_TENSORCOPIES_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Copies the box of `map` at `coordinates` (i32, innermost first) to shared
/// memory. Elements outside of the tensor are zero, and their bytes count.
void createTensorLoad(KernelBuilder &b, Value map, ValueRange coordinates,
                      Value destination, Value barrier);
/// Copies `bytes` (i32), a multiple of 16, from global memory.
void createBulkLoad(KernelBuilder &b, Value source, Value destination,
                    Value bytes, Value barrier);
/// How long the second-level cache keeps what is written.
enum class CachePriority { Normal, EvictFirst };
/// The reverse of a tensor load. Elements outside of the tensor are not
/// written.
void createTensorStore(KernelBuilder &b, Value map, ValueRange coordinates,
                       Value source,
                       CachePriority priority = CachePriority::Normal);
/// Like createTensorStore, but adds f32 elements to those in memory.
void createTensorAdd(KernelBuilder &b, Value map, ValueRange coordinates,
                     Value source,
                     CachePriority priority = CachePriority::Normal);
/// Commits the thread's stores to a group.
void createStoreCommit(KernelBuilder &b);
/// Waits until at most `pending` of the thread's groups still read their shared
/// memory.
void createStoreWaitRead(KernelBuilder &b, int64_t pending);
/// Orders the thread's accesses to shared memory before later ones by the async
/// proxy, TMA and wgmma. After a barrier, also those of other threads.
void createAsyncProxyFence(KernelBuilder &b);
/// Fetches a box of `map` to the L2 cache.
void createTensorPrefetch(KernelBuilder &b, Value map, ValueRange coordinates);
/// Fetches the tensor map itself.
void createMapPrefetch(KernelBuilder &b, Value map);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_TENSORCOPIES_H
