//===- fp8moe-opt.cpp - The fp8moe optimizer driver -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/InitAll.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#ifdef FP8MOE_INCLUDE_TESTS
namespace mlir::fp8moe::test {
void registerTestArtifactPasses();
} // namespace mlir::fp8moe::test
#endif

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  mlir::fp8moe::registerAllPasses();
#ifdef FP8MOE_INCLUDE_TESTS
  mlir::fp8moe::test::registerTestArtifactPasses();
#endif
  mlir::DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv,
                        "fp8moe optimizer driver\n\n"
                        "Reads text and bytecode. Bytecode is trusted: MLIR's "
                        "reader may crash when it is damaged.\n",
                        registry));
}
