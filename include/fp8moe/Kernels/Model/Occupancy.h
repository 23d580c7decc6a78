//===- Occupancy.h - Blocks that run at once --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_OCCUPANCY_H
#define FP8MOE_KERNELS_MODEL_OCCUPANCY_H

#include "fp8moe/Target/TargetInfo.h"

namespace mlir::fp8moe {

/// Returns how many blocks are resident on a multiprocessor at once, given one
/// block's threads, registers per thread and bytes of shared memory. Returns 0
/// if not even one fits.
int64_t countResidentBlocks(int64_t threads, int64_t registers,
                            int64_t sharedBytes, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_OCCUPANCY_H
