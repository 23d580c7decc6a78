//===- Compiler.cpp - From IR to lowered programs -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Pipelines/Compiler.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "fp8moe/Pipelines/Pipelines.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::fp8moe;

LogicalResult fp8moe::setTarget(ModuleOp module, StringRef chip) {
  TargetAttr existing = lookupTargetAttr(module);
  if (existing && existing.getChip() != chip)
    return module.emitError("the module is written for target '")
           << existing.getChip() << "', but is to be compiled for '" << chip
           << "'; remove its '" << FP8MoEDialect::kTargetAttrName
           << "' attribute or ask for that target";
  // A module without an operation of the dialect did not load it.
  module.getContext()->getOrLoadDialect<FP8MoEDialect>();
  auto target = TargetAttr::getChecked([&] { return module.emitError(); },
                                       module.getContext(), chip);
  if (!target)
    return failure();
  module->setAttr(FP8MoEDialect::kTargetAttrName, target);
  return success();
}

/// Builds a pipeline for the module's target, lets `hook` configure it, and
/// runs it.
static LogicalResult
run(ModuleOp module, const PassManagerHook &hook,
    function_ref<void(OpPassManager &, const TargetInfo &)> build) {
  FailureOr<TargetAttr> target = requireTargetAttr(module);
  if (failed(target))
    return failure();
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (failed(hook(pm)))
    return failure();
  build(pm, target->getInfo());
  return pm.run(module);
}

LogicalResult fp8moe::runTensorPasses(ModuleOp module,
                                      const PassManagerHook &hook,
                                      bool optimizeLayouts,
                                      const SelectPrecisionOptions &precision) {
  return run(module, hook, [&](OpPassManager &pm, const TargetInfo &) {
    buildTensorPipeline(pm, optimizeLayouts, precision);
  });
}

LogicalResult fp8moe::runSweep(ModuleOp module, const PassManagerHook &hook) {
  return run(module, hook, [](OpPassManager &pm, const TargetInfo &) {
    pm.addPass(createSweepTiles());
  });
}

LogicalResult fp8moe::runKernelEmission(ModuleOp module,
                                        const PassManagerHook &hook) {
  return run(module, hook, [](OpPassManager &pm, const TargetInfo &) {
    pm.addPass(createConvertFP8MoEToGPU());
    OpPassManager &functions =
        pm.nest<gpu::GPUModuleOp>().nest<gpu::GPUFuncOp>();
    // Guards that always hold and carried values that nobody reads go.
    functions.addPass(arith::createIntRangeOptimizationsPass());
    functions.addPass(createRemoveDeadValuesPass());
    functions.addPass(createCanonicalizerPass());
  });
}

LogicalResult fp8moe::runKernelOutlining(ModuleOp module,
                                         const PassManagerHook &hook) {
  return run(module, hook, [](OpPassManager &pm, const TargetInfo &) {
    pm.addNestedPass<gpu::GPUModuleOp>(kernel::createOutlineRepeats());
    // Not before: the second time that a step computes a value would be gone.
    pm.addPass(createCSEPass());
  });
}

LogicalResult fp8moe::runLowering(ModuleOp module,
                                  const PassManagerHook &hook) {
  return run(module, hook, buildLoweringPipeline);
}

LogicalResult fp8moe::runDelays(ModuleOp module, int64_t seed,
                                const PassManagerHook &hook) {
  return run(module, hook, [&](OpPassManager &pm, const TargetInfo &) {
    DelayWarpsOptions options;
    options.seed = seed;
    pm.nest<gpu::GPUModuleOp>().addPass(createDelayWarps(options));
  });
}
