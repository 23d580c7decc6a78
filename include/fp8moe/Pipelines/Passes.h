//===- Passes.h - Passes of the pipelines -----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_PASSES_H
#define FP8MOE_PIPELINES_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace mlir::fp8moe {

#define GEN_PASS_DECL
#include "fp8moe/Pipelines/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fp8moe/Pipelines/Passes.h.inc"

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_PASSES_H
