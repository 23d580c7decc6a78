//===- fp8moe-opt.cpp - The fp8moe optimizer driver -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../CommandLine.h"
#include "../Tools.h"
#include "fp8moe/InitAll.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"

namespace cl = llvm::cl;

/// --help shows this project's options. --help-hidden also shows MLIR's passes
/// and the options of LLVM's libraries.
static bool wantsShortHelp(llvm::ArrayRef<char *> arguments) {
  return llvm::any_of(arguments, [](llvm::StringRef argument) {
    return argument == "--help" || argument == "-help" || argument == "-h";
  });
}

int tools::optMain(int argc, char **argv, void (*registerMorePasses)()) {
  static cl::OptionCategory ours("Compiler passes and pipelines of fp8moe");
  static cl::OptionCategory upstream("MLIR's options");
  llvm::InitLLVM init(argc, argv);
  tools::setVersionPrinter("fp8moe-opt");
  // Options that exist at this point are those of libraries.
  for (auto &entry : cl::getRegisteredOptions())
    entry.second->setHiddenFlag(cl::Hidden);

  if (!wantsShortHelp(llvm::ArrayRef(argv, argc)))
    mlir::registerAllPasses();
  mlir::fp8moe::registerAllPasses();
  if (registerMorePasses)
    registerMorePasses();
  mlir::DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  std::string header = mlir::registerCLIOptions(
      "fp8moe optimizer driver\n\n"
      "Reads text and bytecode. Bytecode is trusted: MLIR's reader may crash "
      "when it is damaged.\n"
      "--help-hidden lists MLIR's passes and LLVM's options, too.\n",
      registry);
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getOptionHiddenFlag() == cl::NotHidden)
      entry.second->addCategory(entry.second->hasArgStr() ? upstream : ours);
  auto [input, output] = mlir::parseCLIOptions(argc, argv, header);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
