//===- Launch.h - Launches the streamed quantize kernel ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Kernel.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

namespace mlir::fp8moe {

/// The quantization along rows that the same launch makes, where its results
/// are, and the alignment in bytes that its output is promised to have.
struct RowQuantization {
  StreamedTile tile;
  RowOutput output;
  Value quantized, scales;
  int64_t alignment = 1;
};

/// Launches the streamed kernel of a problem if the pitch and the address of
/// its input, and its sizes, are such that the kernel takes them. Some of that
/// is only known when the program runs: the result is the condition (i1) under
/// which something else must do the work. Another condition, `when`, may be
/// null.
Value launchStreamedQuantize(Location loc, const QuantizeProblem &problem,
                             const QuantizeSizes<OpFoldResult> &sizes,
                             const QuantizeBuffers &buffers, Value when,
                             ProgramLowering &lowering);
/// The same along both axes, and of groups that are not too large.
Value launchBothAxesQuantize(Location loc, const QuantizeProblem &problem,
                             const QuantizeSizes<OpFoldResult> &sizes,
                             const QuantizeBuffers &buffers,
                             const RowQuantization &rows,
                             ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_LAUNCH_H
