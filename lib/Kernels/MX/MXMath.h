//===- MXMath.h - MX scale bytes ------------------------------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXMATH_H
#define FP8MOE_LIB_KERNELS_MX_MXMATH_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

namespace mlir::fp8moe {

/// The scale byte (i32) of a block whose largest magnitude has these f32 bits:
/// (X2) to (X4), (X10) and (X11) of docs/reference/semantics.md.
Value createMXScaleByte(KernelBuilder &b, Value magnitude, Type fp8Type,
                        MXMode mode);

/// (X5): the f32 to multiply by instead of dividing by 2^(byte - 127); NaN for
/// a NaN's byte.
Value createMXMultiplier(KernelBuilder &b, Value byte);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXMATH_H
