//===- main.cpp - The program fp8moe-opt ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Tools.h"

#ifdef FP8MOE_INCLUDE_TESTS
namespace mlir::fp8moe::test {
void registerTestArtifactPasses();
} // namespace mlir::fp8moe::test
#endif

int main(int argc, char **argv) {
#ifdef FP8MOE_INCLUDE_TESTS
  return tools::optMain(argc, argv,
                        mlir::fp8moe::test::registerTestArtifactPasses);
#else
  return tools::optMain(argc, argv);
#endif
}
