//===- Occupancy.cpp - Blocks that run at once ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Common/Occupancy.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fp8moe;

int64_t fp8moe::countResidentBlocks(int64_t threads, int64_t registers,
                                    int64_t sharedBytes,
                                    const TargetInfo &target) {
  if (threads > target.maxThreadsPerBlock || threads % target.warpSize ||
      registers > target.maxRegistersPerThread ||
      sharedBytes > target.sharedMemoryPerBlock)
    return 0;
  int64_t blocks =
      std::min(target.maxThreadsPerMultiprocessor / threads,
               target.registersPerMultiprocessor / (threads * registers));
  sharedBytes += target.sharedMemoryReservedPerBlock;
  return sharedBytes ? std::min(blocks, target.sharedMemoryPerMultiprocessor /
                                            sharedBytes)
                     : blocks;
}
