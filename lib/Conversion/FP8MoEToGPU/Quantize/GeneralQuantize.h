//===- GeneralQuantize.h - Kernels that take everything ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_GENERALQUANTIZE_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_GENERALQUANTIZE_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/AxisQuantizeProblem.h"

namespace mlir::fp8moe {

/// The kernel of a problem with the tile in `config`, which is of a general
/// method: it takes every address, every pitch and every size. Its pointers are
/// input, offsets (jagged only), output (unless there is none) and scales; then
/// come the dynamic sizes in the order of `members`.
gpu::GPUFuncOp buildGeneralQuantize(Location loc, gpu::GPUModuleOp module,
                                    StringRef name,
                                    const AxisQuantizeProblem &problem,
                                    const QuantizeConfig &config,
                                    const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_GENERALQUANTIZE_H
