//===- Occupancy.cpp - Blocks that run at once ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fp8moe;

/// A multiprocessor's registers are those of four schedulers (NVIDIA) or SIMDs
/// (AMD), each with warps of its own, and a thread gets them by eight: CUDA's
/// occupancy calculator, and the ISA of CDNA 3.
static constexpr int64_t kPartitions = 4;
static constexpr uint64_t kGranule = 8;

int64_t fp8moe::countResidentBlocks(int64_t threads, int64_t registers,
                                    int64_t sharedBytes,
                                    const TargetInfo &target) {
  if (threads > target.maxThreadsPerBlock || threads % target.warpSize ||
      registers > target.maxRegistersPerThread ||
      sharedBytes > target.sharedMemoryPerBlock)
    return 0;
  int64_t ofWarp = target.warpSize *
                   llvm::alignTo(std::max<int64_t>(registers, 1), kGranule);
  int64_t warps =
      kPartitions * (target.registersPerMultiprocessor / kPartitions / ofWarp);
  int64_t blocks = std::min(target.maxThreadsPerMultiprocessor / threads,
                            warps / (threads / target.warpSize));
  return std::min(blocks, target.countBlocksByShared(sharedBytes));
}
