//===- Passes.h - Conversion passes -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_PASSES_H
#define FP8MOE_CONVERSION_PASSES_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::fp8moe {

#define GEN_PASS_DECL
#include "fp8moe/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fp8moe/Conversion/Passes.h.inc"

/// Adds the patterns of fp8moe-expand-fp8-casts, which expand `arith.extf` and
/// `arith.truncf` on 8-bit floating point and on bf16.
void populateExpandFP8CastsPatterns(RewritePatternSet &patterns);

/// Lowers the output of convert-fp8moe-to-loops and fp8moe-define-cpu-entries
/// to the LLVM dialect. Buffers are freed, and FP8 casts become integer
/// arithmetic. The result calls no library functions but malloc, free and mem*.
/// Host plans stay as they are.
void buildLoopsToLLVMPipeline(OpPassManager &pm);

// The code behind these two is the only one that knows all GPU vendors.

/// Inserts the vendors' dialects whose operations kernels may contain.
void insertTargetDialects(DialectRegistry &registry);

/// Adds the passes that lower the kernels of every gpu.module to the LLVM
/// dialect and the dialect of the vendor of `target`, a GPU. `pm` runs on the
/// builtin module.
void buildGPUToTargetPipeline(OpPassManager &pm, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_PASSES_H
