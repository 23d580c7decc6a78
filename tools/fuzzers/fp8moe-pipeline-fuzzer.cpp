//===- fp8moe-pipeline-fuzzer.cpp - Pass pipelines on modules -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The first line of an input is the pipeline: "// PASS,PASS{OPTION=VALUE}",
// optionally with the operation that it runs on.
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/InitAll.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassRegistry.h"

using namespace fuzz;
using namespace mlir;

/// Returns whether all passes are the project's. Other passes may produce IR
/// that the project's operations do not allow, so the verifier's errors are no
/// defects.
static bool isOfProject(StringRef pipeline) {
  return llvm::all_of(tokenize(pipeline), [](const Token &token) {
    return !PassInfo::lookup(token.text) ||
           StringRef(token.text).contains("fp8moe");
  });
}

/// Parses the pipeline to `pm`, or reports an error.
static LogicalResult parsePipeline(StringRef text, PassManager &pm) {
  std::string errors;
  llvm::raw_string_ostream os(errors);
  StringRef module = ModuleOp::getOperationName();
  bool isAnchored = text.starts_with((module + "(").str());
  LogicalResult parsed = failure();
  if (isAnchored) {
    FailureOr<OpPassManager> anchored = parsePassPipeline(text, os);
    parsed = anchored;
    if (succeeded(anchored))
      static_cast<OpPassManager &>(pm) = std::move(*anchored);
  } else {
    parsed = parsePassPipeline(text, pm, os);
  }
  if (failed(parsed) && errors.empty())
    reportBroken("a refused pipeline has an error", text);
  return parsed;
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  mlir::registerAllPasses();
  mlir::fp8moe::registerAllPasses();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [pipeline, text] = splitInput(getInput(data, size));
  Compiler compiler;
  PassManager pm(&compiler.getContext(), ModuleOp::getOperationName(),
                 OpPassManager::Nesting::Implicit);
  if (failed(parsePipeline(pipeline, pm)))
    return 0;
  compiler.watch(pm, /*verifies=*/isOfProject(pipeline));
  OwningOpRef<ModuleOp> module = compiler.parse(text);
  // MLIR reports a pass that does not fit its operation without a location.
  if (module && failed(pm.run(*module)))
    compiler.expectError(/*isLocated=*/false);
  return 0;
}

std::string fuzz::mutateChoice(StringRef choice, StringRef other,
                               Random &random) {
  if (other.empty())
    return mutateText(choice, random);
  return random.oneIn(2) ? other.str() : crossOverText(choice, other, random);
}
