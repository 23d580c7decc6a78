//===- Launch.h - Launches the grouped matmul of Hopper ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_MATMUL_HOPPER_LAUNCH_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_MATMUL_HOPPER_LAUNCH_H

#include "FP8MoEToGPU/Program/KernelLowering.h"

namespace mlir::fp8moe {

const KernelLowering &getHopperMatmulLowering();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_MATMUL_HOPPER_LAUNCH_H
