//===- fp8moe-opt.cpp - The fp8moe optimizer driver -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToLoops/FP8MoEToLoops.h"
#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#ifdef FP8MOE_INCLUDE_TESTS
namespace mlir::fp8moe::test {
void registerTestArtifactPasses();
} // namespace mlir::fp8moe::test
#endif

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  mlir::fp8moe::registerFP8MoEConversionPasses();
  mlir::fp8moe::registerFP8MoEToLoopsPipelines();
  mlir::fp8moe::registerFP8MoETransformsPasses();
#ifdef FP8MOE_INCLUDE_TESTS
  mlir::fp8moe::test::registerTestArtifactPasses();
#endif
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::fp8moe::FP8MoEDialect>();
  registry.insert<mlir::fp8moe::plan::PlanDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "fp8moe optimizer driver\n", registry));
}
