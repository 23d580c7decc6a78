//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_PIPELINES_H
#define FP8MOE_PIPELINES_PIPELINES_H

#include "fp8moe/Target/TargetInfo.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace mlir::fp8moe {

#define GEN_PASS_DECL
#include "fp8moe/Pipelines/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fp8moe/Pipelines/Passes.h.inc"

/// Adds the layout passes (docs/design/layouts.md). They need `fp8moe.target`
/// on the module and resolved FP8 types. `verifyOptimal` compares each
/// placement with all others by enumeration.
void buildLayoutPipeline(OpPassManager &pm, bool verifyOptimal = false);

/// Adds the passes on tensors, the same for every target. They resolve FP8
/// types, check layouts and make all decisions. They need `fp8moe.target` on
/// the module.
void buildTensorPipeline(OpPassManager &pm, bool optimizeLayouts = true,
                         const SelectPrecisionOptions &precision = {});

/// Adds the passes from tensors to host plans, and to loops (CPU) or kernels
/// (GPU) in the LLVM dialect.
void buildLoweringPipeline(OpPassManager &pm, const TargetInfo &target);

/// Registers pipelines on modules for fp8moe-opt. From tensors to the LLVM
/// dialect: `--fp8moe-to-cpu[="chip=cpu"]`, `--fp8moe-to-nvvm="chip=sm_90a"`
/// and `--fp8moe-to-rocdl="chip=gfx942"`. Parts of these:
/// `--fp8moe-optimize-layouts`, which `optimize-layouts=false` leaves out, and
/// `--fp8moe-loops-to-llvm`.
void registerPipelines();

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_PIPELINES_H
