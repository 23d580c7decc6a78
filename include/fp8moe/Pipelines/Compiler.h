//===- Compiler.h - From IR to lowered programs -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps of a compilation, for tools that do more than run one pipeline:
//
//   setTarget         writes the target's attribute to the module
//   runTensorPasses   writes all decisions as attributes, still on tensors
//   runSweep          optional, for measurements: adds a program for every tile
//   runKernelEmission optional, for readers: kernels above vendor instructions
//   runLowering       creates kernels in the LLVM dialect, and host plans
//
// lib/Artifact turns the result into binaries and a manifest.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_COMPILER_H
#define FP8MOE_PIPELINES_COMPILER_H

#include "fp8moe/Target/TargetInfo.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>

namespace mlir::fp8moe {

/// Configures a pass manager before it runs, for example from the command line.
using PassManagerHook = std::function<LogicalResult(PassManager &)>;

/// Sets `fp8moe.target` of `module`. Reports an unknown chip, and a module that
/// already names another chip.
LogicalResult setTarget(ModuleOp module, StringRef chip);

/// Runs the passes on tensors for the target that the module names.
LogicalResult runTensorPasses(ModuleOp module, const PassManagerHook &hook,
                              bool optimizeLayouts = true,
                              const SelectPrecisionOptions &precision = {});

/// Adds a function for every tile that each quantize kernel can have. Runs
/// after runTensorPasses.
LogicalResult runSweep(ModuleOp module, const PassManagerHook &hook);

/// Creates host plans and `gpu.func` kernels for the target that the module
/// names. Simplifies the kernels for readers. runLowering starts with the same
/// conversion.
LogicalResult runKernelEmission(ModuleOp module, const PassManagerHook &hook);

/// Outlines repeated code of the kernels that runKernelEmission creates into
/// functions.
LogicalResult runKernelOutlining(ModuleOp module, const PassManagerHook &hook);

/// Lowers tensors to host plans, and to kernels in the LLVM dialect, for the
/// target that the module names.
LogicalResult runLowering(ModuleOp module, const PassManagerHook &hook);

/// Inserts pauses of warps into lowered NVVM kernels, to find races. `seed`
/// determines where.
LogicalResult runDelays(ModuleOp module, int64_t seed,
                        const PassManagerHook &hook);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_COMPILER_H
