//===- Kernel.h - Quantized lines and their transpose -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_QUANTIZECOPY_KERNEL_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_QUANTIZECOPY_KERNEL_H

#include "FP8MoEToGPU/Quantize/QuantizeKernel.h"
#include "fp8moe/Tuning/Quantize/QuantizeCopy.h"

namespace mlir::fp8moe {

/// What the kernel sees of a quantization with a copy: `lines` is that along
/// the lines, each of them a slice; `copy` has the same elements with the lines
/// as the rows of its segments, and the copy as its output. It has no scales.
struct QuantizeCopyKernel {
  QuantizeKernel lines, copy;
};

/// The pointers of a kernel: input, data and scales, then input, the ends of
/// padded groups, copy, and scales again; then its unknown sizes, those of
/// `lines` first.
gpu::GPUFuncOp buildQuantizeCopy(Location loc, gpu::GPUModuleOp module,
                                 StringRef name,
                                 const AxisQuantizeProblem &lines,
                                 const AxisQuantizeProblem &copy,
                                 const QuantizeCopyTile &tile,
                                 const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_QUANTIZECOPY_KERNEL_H
