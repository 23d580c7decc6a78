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

namespace mlir::fp8moe {

/// The layout passes (docs/design/layouts.md). Needs `fp8moe.target` on the
/// module and resolved FP8 types. `verifyOptimal` compares placements with all
/// others.
void buildLayoutPipeline(OpPassManager &pm, bool verifyOptimal = false);

/// The passes on tensors, the same for every target: FP8 types are resolved,
/// layouts checked, decisions made. Needs `fp8moe.target` on the module.
void buildTensorPipeline(OpPassManager &pm, bool optimizeLayouts = true,
                         const SelectPrecisionOptions &precision = {});

/// From tensors to host plans, and loops or GPU kernels in the LLVM dialect.
void buildLoweringPipeline(OpPassManager &pm, const TargetInfo &target);

/// Registers for fp8moe-opt, each from tensors to the LLVM dialect:
/// `--fp8moe-to-cpu[="chip=cpu"]`, `--fp8moe-to-nvvm="chip=sm_90a"` and
/// `--fp8moe-to-rocdl="chip=gfx942"`; and of their parts
/// `--fp8moe-optimize-layouts`, which they run unless told
/// `optimize-layouts=false`, and `--fp8moe-loops-to-llvm`. All run on modules.
void registerPipelines();

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_PIPELINES_H
