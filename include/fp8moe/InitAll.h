//===- InitAll.h - Registration of everything in fp8moe ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of all dialects and passes of the project, so that every tool
// reads the same IR.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_INITALL_H
#define FP8MOE_INITALL_H

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Pipelines/Pipelines.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

namespace mlir::fp8moe {

/// Registers the dialects of fp8moe and of MLIR with all of their extensions.
inline void registerAllDialects(DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<FP8MoEDialect, kernel::KernelDialect, plan::PlanDialect>();
}

/// Registers the passes and pipelines of fp8moe.
inline void registerAllPasses() {
  registerFP8MoEConversionPasses();
  kernel::registerFP8MoEKernelPasses();
  registerFP8MoEPipelinesPasses();
  registerFP8MoETransformsPasses();
  registerPipelines();
}

} // namespace mlir::fp8moe

#endif // FP8MOE_INITALL_H
