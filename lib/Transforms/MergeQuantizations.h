//===- MergeQuantizations.h - Equal quantizations are one -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_MERGEQUANTIZATIONS_H
#define FP8MOE_LIB_TRANSFORMS_MERGEQUANTIZATIONS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

struct TargetInfo;

/// Replaces scales, casts and quantizations by the results of earlier ones of
/// their block that compute the same values, and copies of these where they lie
/// otherwise and that takes less time. Returns how many were replaced;
/// `explain`: says why others were not.
unsigned mergeQuantizations(FunctionOpInterface function,
                            const TargetInfo &target, bool explain);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_MERGEQUANTIZATIONS_H
