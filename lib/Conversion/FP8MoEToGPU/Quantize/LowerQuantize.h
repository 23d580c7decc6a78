//===- LowerQuantize.h - Dynamic quantizations ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_LOWERQUANTIZE_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_LOWERQUANTIZE_H

#include "FP8MoEToGPU/Program/OpLowering.h"

namespace mlir::fp8moe {

/// Whole tensors and jagged groups, along one axis or two.
const OpLowering &getQuantizeOpLowering();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_LOWERQUANTIZE_H
