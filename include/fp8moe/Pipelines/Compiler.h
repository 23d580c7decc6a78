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
//   setTarget         the module says what it is compiled for
//   runTensorPasses   decisions, written as attributes; still tensors
//   runSweep          only to measure: a program for every tile
//   runKernelEmission only to read: kernels above the vendor's instructions
//   runLowering       kernels in the LLVM dialect, and host plans
//
// The result goes to lib/Artifact.
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

/// Sets `fp8moe.target` of `module`. Reports a chip that is not known, and a
/// module that names another one.
LogicalResult setTarget(ModuleOp module, StringRef chip);

/// Runs the passes on tensors for the target that the module names.
LogicalResult runTensorPasses(ModuleOp module, const PassManagerHook &hook,
                              bool optimizeLayouts = true,
                              const SelectPrecisionOptions &precision = {});

/// Adds a function for every tile that a quantize kernel can have. Runs after
/// the passes on tensors.
LogicalResult runSweep(ModuleOp module, const PassManagerHook &hook);

/// Turns the module into plans and kernels for the GPU that it names,
/// simplified for people: the first step of runLowering.
LogicalResult runKernelEmission(ModuleOp module, const PassManagerHook &hook);

/// Makes functions of what such kernels repeat.
LogicalResult runKernelOutlining(ModuleOp module, const PassManagerHook &hook);

/// Lowers the module to kernels and plans for the target that it names.
LogicalResult runLowering(ModuleOp module, const PassManagerHook &hook);

/// Pauses warps of lowered NVVM kernels here and there, to find races.
LogicalResult runDelays(ModuleOp module, int64_t seed,
                        const PassManagerHook &hook);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_COMPILER_H
