//===- Passes.h - Passes on kernels -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_H
#define FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/Pass.h"

namespace mlir::fp8moe::kernel {

#define GEN_PASS_DECL
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"

} // namespace mlir::fp8moe::kernel

#endif // FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_H
