//===- Passes.h - Tensor-level passes ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TRANSFORMS_PASSES_H
#define FP8MOE_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::fp8moe {

/// The category of the remarks about layouts.
constexpr llvm::StringLiteral kLayoutRemarks = "fp8moe-layout";

#define GEN_PASS_DECL
#include "fp8moe/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fp8moe/Transforms/Passes.h.inc"

} // namespace mlir::fp8moe

#endif // FP8MOE_TRANSFORMS_PASSES_H
