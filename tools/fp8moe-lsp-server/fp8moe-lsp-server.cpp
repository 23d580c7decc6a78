//===- fp8moe-lsp-server.cpp - Language server for editors ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../CommandLine.h"
#include "fp8moe/InitAll.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  tools::setVersionPrinter("fp8moe-lsp-server");
  mlir::DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
