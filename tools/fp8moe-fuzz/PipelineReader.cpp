//===- PipelineReader.cpp - Pass pipelines on modules ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Readers.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassRegistry.h"

using namespace fuzz;
using namespace mlir;

/// The line between the pipeline and the module.
static constexpr llvm::StringLiteral kSeparator = "\n// -----\n";

/// Whether all passes of the pipeline are the project's.
static bool isOfProject(StringRef pipeline) {
  return llvm::all_of(tokenize(pipeline), [](const Token &token) {
    return !PassInfo::lookup(token.text) ||
           StringRef(token.text).contains("fp8moe");
  });
}

Outcome fuzz::readPipeline(const Input &input, Session &session) {
  auto [text, source] = StringRef(input.bytes).split(kSeparator);
  MLIRContext &context = session.getContext();

  session.enter("parse pipeline");
  std::string errors;
  llvm::raw_string_ostream os(errors);
  PassManager pm(&context, ModuleOp::getOperationName(),
                 OpPassManager::Nesting::Implicit);
  LogicalResult parsed = success();
  if (input.choice == "anchored") {
    FailureOr<OpPassManager> anchored = parsePassPipeline(text, os);
    parsed = anchored;
    if (succeeded(parsed)) {
      if (anchored->getOpAnchorName() != ModuleOp::getOperationName())
        return {};
      static_cast<OpPassManager &>(pm) = std::move(*anchored);
    }
  } else {
    parsed = parsePassPipeline(text, pm, os);
  }
  if (failed(parsed)) {
    if (errors.empty())
      session.report("pipeline refused without an error", text);
    return {};
  }
  // Other passes may leave what our operations do not allow: the verifier says
  // so, and nothing is wrong.
  bool isOurs = isOfProject(text);
  watchPasses(pm, session, /*verifies=*/isOurs);

  session.enter("parse");
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(source, ParserConfig(&context), "input");
  if (!module) {
    session.expectError();
    return {};
  }
  Outcome outcome;
  outcome.accepted = true;
  session.enter("run pipeline");
  outcome.lowered = succeeded(pm.run(*module));
  // A pass that does not fit its operation is refused by MLIR, without a
  // location.
  if (!outcome.lowered)
    session.expectError(/*isLocated=*/false);
  return outcome;
}
