//===- Opaque.h - Values that LLVM does not look through --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_OPAQUE_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_OPAQUE_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"

namespace mlir::fp8moe {

/// An i32, or a vector of them, that LLVM does not know to be what it is: it
/// passes through an empty assembly. Costs no instruction.
Value createOpaque(KernelBuilder &b, Value value);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_OPAQUE_H
