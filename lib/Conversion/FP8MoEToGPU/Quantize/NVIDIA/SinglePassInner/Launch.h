//===- Launch.h - Launches the whole-column kernel --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_LAUNCH_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_LAUNCH_H

#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

namespace mlir::fp8moe {

/// Launches the kernels that take whole columns, one for each size of cluster,
/// if addresses, pitches and sizes are such that one of them can, and `range`
/// (an i1, or null) holds. The result is the condition (i1) under which
/// something else must do the work.
Value launchColumnsQuantize(Location loc, const QuantizeProblem &problem,
                            const QuantizeSizes<OpFoldResult> &sizes,
                            const QuantizeBuffers &buffers, Value range,
                            ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_LAUNCH_H
