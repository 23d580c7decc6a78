//===- Launch.h - Launches the single-pass outer quantize kernel *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H

#include "FP8MoEToGPU/Program/KernelLowering.h"

namespace mlir::fp8moe {

/// The single-pass outer kernel, if the pitch and the address of its input, and
/// its sizes, are such that it takes them.
const KernelLowering &getSinglePassOuterLowering();
/// As above, along both axes, for groups that are not too large.
const KernelLowering &getSinglePassBothAxesLowering();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H
