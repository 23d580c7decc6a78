//===- Cluster.h - Blocks that share their memory ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_CLUSTER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_CLUSTER_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"

namespace mlir::fp8moe {

/// The type of a pointer to the shared memory of a cluster.
Type getClusterPointerType(KernelBuilder &b);
/// The place of `pointer` in the shared memory of block `rank` (i32) of the
/// cluster (mapa).
Value createClusterPointer(KernelBuilder &b, Value pointer, Value rank);
/// Arrives at an mbarrier of any block of the cluster. Releases what this
/// thread wrote there.
void createRemoteArrive(KernelBuilder &b, Value barrier);
/// All threads of the cluster meet.
void createClusterBarrier(KernelBuilder &b);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_CLUSTER_H
