//===- Compiler.cpp - The compiler in fuzz targets ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/Artifact/CodeEmission.h"
#include "fp8moe/InitAll.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

using namespace fuzz;
using namespace mlir;

namespace {
/// Verifies IR after each pass. The pass manager's own verifier reports errors
/// that look like those of the user's input.
class PassWatcher : public PassInstrumentation {
public:
  PassWatcher(Compiler &compiler, bool verifies)
      : compiler(compiler), verifies(verifies) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      compiler.enter(pass->getArgument());
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    if (verifies && !pass->getArgument().empty() && failed(verify(op)))
      reportBroken("invalid IR after " + pass->getArgument(),
                   compiler.getErrors());
  }

private:
  Compiler &compiler;
  bool verifies;
};
} // namespace

/// Returns whether the text crashes MLIR's parser, which asks `index` for its
/// width.
static bool endsParser(StringRef text) {
  std::string dense = text.str();
  llvm::erase_if(dense, llvm::isSpace);
  return StringRef(dense).contains("array<index");
}

/// Returns whether the module crashes MLIR's verifier: a select by a tensor
/// assumes that its operands are shaped.
static bool endsVerifier(ModuleOp module) {
  WalkResult result = module.walk([](arith::SelectOp op) {
    bool isScalar = isa<ShapedType>(op.getCondition().getType()) &&
                    !isa<ShapedType>(op.getType());
    return isScalar ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

static const DialectRegistry &getRegistry() {
  static const DialectRegistry registry = [] {
    DialectRegistry result;
    mlir::fp8moe::registerAllDialects(result);
    mlir::fp8moe::registerArtifactTranslations(result);
    return result;
  }();
  return registry;
}

Compiler::Compiler()
    : context(getRegistry(), MLIRContext::Threading::DISABLED) {
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    // Other diagnostics are text that is made from the IR, too.
    std::string text = diagnostic.str();
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    errors += text + "\n";
    isUnlocated |= isa<UnknownLoc>(diagnostic.getLocation());
    return success();
  });
  std::string layouts = mlir::fp8moe::kLayoutRemarks.str();
  (void)remark::enableOptimizationRemarks(
      context, /*streamer=*/nullptr,
      std::make_unique<remark::RemarkEmittingPolicyAll>(),
      {layouts, layouts, layouts, layouts, layouts},
      /*printAsEmitRemarks=*/true);
}

OwningOpRef<ModuleOp> Compiler::parse(StringRef text) {
  enter("parse");
  if (endsParser(text))
    return nullptr;
  // The parser reads up to a null character, which libFuzzer's inputs lack. The
  // name gives operations a known location.
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  auto module = parseSourceString<ModuleOp>(text.str(), config, "input");
  if (module && endsVerifier(*module))
    return nullptr;
  if (!module || failed(verify(*module))) {
    expectError();
    return nullptr;
  }
  return module;
}

void Compiler::watch(PassManager &pm, bool verifies) {
  pm.enableVerifier(!verifies);
  pm.addInstrumentation(std::make_unique<PassWatcher>(*this, verifies));
}

void Compiler::expectError(bool isLocated) const {
  if (errors.empty())
    reportBroken("a failure has an error: " + stage);
  if (isLocated && isUnlocated)
    reportBroken("an error has a location: " + stage, errors);
}

std::pair<StringRef, StringRef> fuzz::splitInput(StringRef input) {
  if (!input.starts_with("//"))
    return {"", input};
  auto [line, rest] = input.split('\n');
  return {line.ltrim('/').trim(), rest};
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// Replaces an input by `text` and returns its size.
static size_t putInput(StringRef text, uint8_t *data, size_t maxSize) {
  return llvm::copy(text.take_front(maxSize), data) - data;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  Random random(seed);
  if (random.oneIn(32))
    return LLVMFuzzerMutate(data, size, maxSize);
  auto [choice, text] = splitInput(toText(data, size));
  // Most mutations change only the first line or only the text.
  std::string line =
      random.oneIn(4) ? mutateChoice(choice, "", random) : choice.str();
  std::string changed = random.oneIn(8) ? text.str() : mutateText(text, random);
  return putInput("// " + line + "\n" + changed, data, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *otherData,
                                            size_t otherSize, uint8_t *result,
                                            size_t maxSize, unsigned seed) {
  Random random(seed);
  auto [choice, text] = splitInput(toText(data, size));
  auto [otherChoice, other] = splitInput(toText(otherData, otherSize));
  std::string line = random.oneIn(4) ? mutateChoice(choice, otherChoice, random)
                                     : choice.str();
  return putInput("// " + line + "\n" + crossOverText(text, other, random),
                  result, maxSize);
}
