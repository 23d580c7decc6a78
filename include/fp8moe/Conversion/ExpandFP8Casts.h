//===- ExpandFP8Casts.h - Casts to integer arithmetic -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_EXPANDFP8CASTS_H
#define FP8MOE_CONVERSION_EXPANDFP8CASTS_H

#include "mlir/IR/PatternMatch.h"

namespace mlir::fp8moe {

/// Adds the patterns of fp8moe-expand-fp8-casts, which expand `arith.extf` and
/// `arith.truncf` on 8-bit floating point and on bf16.
void populateExpandFP8CastsPatterns(RewritePatternSet &patterns);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_EXPANDFP8CASTS_H
