//===- CompileInput.cpp - IR on the command line --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileInput.h"

#include "fp8moe/Artifact/ArtifactWriter.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/InitAll.h"
#include "fp8moe/Pipelines/Compiler.h"
#include "fp8moe/Pipelines/Decisions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace fp8moe::run;

llvm::Error TemporaryFolder::create() {
  llvm::SmallString<128> unique;
  if (std::error_code code =
          llvm::sys::fs::createUniqueDirectory("fp8moe-run", unique))
    return llvm::createStringError(code, "cannot make a temporary folder: " +
                                             code.message());
  folder = std::string(unique);
  return llvm::Error::success();
}

TemporaryFolder::~TemporaryFolder() {
  if (!folder.empty())
    llvm::sys::fs::remove_directories(folder);
}

/// The CPU flavour that `module` names, by default the one with f8E4M3FN.
static llvm::StringRef chooseCpu(mlir::ModuleOp module) {
  mlir::fp8moe::TargetAttr target = mlir::fp8moe::lookupTargetAttr(module);
  bool isCpu = target && target.getInfo().kind == mlir::fp8moe::TargetKind::CPU;
  return isCpu ? target.getChip() : "cpu";
}

bool fp8moe::run::compileForCpu(const std::string &path,
                                const std::string &folder) {
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      mlir::openInputFile(path, &error);
  if (!buffer) {
    llvm::WithColor::error(llvm::errs(), "fp8moe-run") << error << "\n";
    return false;
  }
  mlir::DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  mlir::fp8moe::registerArtifactTranslations(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler handler(*sources, &context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources,
                                            mlir::ParserConfig(&context));
  if (!module)
    return false;

  auto keepDefaults = [](mlir::PassManager &) { return mlir::success(); };
  if (failed(mlir::fp8moe::setTarget(*module, chooseCpu(*module))) ||
      failed(mlir::fp8moe::runTensorPasses(*module, keepDefaults)))
    return false;
  mlir::FailureOr<mlir::fp8moe::TargetAttr> target =
      mlir::fp8moe::requireTargetAttr(*module);
  if (failed(target))
    return false;
  mlir::fp8moe::ArtifactOptions options;
  options.decisions = mlir::fp8moe::serializeDecisions(
      mlir::fp8moe::collectDecisions(*module, target->getInfo()));
  return succeeded(mlir::fp8moe::runLowering(*module, keepDefaults)) &&
         succeeded(mlir::fp8moe::writeArtifact(*module, target->getInfo(),
                                               folder, options));
}
