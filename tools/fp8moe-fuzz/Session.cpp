//===- Session.cpp - What a reader of inputs has around it ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <unistd.h>

using namespace fuzz;
using namespace mlir;

/// A context grows with every type and attribute that it has seen.
static constexpr size_t kInputsPerContext = 500;

static void copyText(StringRef text, char *memory, size_t size) {
  size_t length = std::min(text.size(), size - 1);
  std::memcpy(memory, text.data(), length);
  memory[length] = 0;
}

void Session::begin() {
  if (++inputsInContext > kInputsPerContext)
    context.reset();
  numErrors = 0;
  hasUnlocatedError = false;
  firstError.clear();
  enter("begin");
}

MLIRContext &Session::getContext() {
  if (context)
    return *context;
  inputsInContext = 0;
  context = std::make_unique<MLIRContext>(getRegistry(),
                                          MLIRContext::Threading::DISABLED);
  context->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    if (numErrors++ == 0)
      firstError = text;
    hasUnlocatedError |= isa<UnknownLoc>(diagnostic.getLocation());
    return success();
  });
  // Remarks are text made from the IR too.
  StringRef layouts = mlir::fp8moe::kLayoutRemarks;
  remark::RemarkCategories categories{layouts.str(), layouts.str(),
                                      layouts.str(), layouts.str(),
                                      layouts.str()};
  (void)remark::enableOptimizationRemarks(
      *context, /*streamer=*/nullptr,
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories,
      /*printAsEmitRemarks=*/true);
  return *context;
}

void Session::enter(StringRef stage) {
  copyText(stage, slot.stage, sizeof(slot.stage));
}

void Session::report(StringRef name, const Twine &message) {
  copyText(name, slot.find, sizeof(slot.find));
  copyText(message.str(), slot.message, sizeof(slot.message));
  _exit(kFindStatus);
}

void Session::expectError(bool isLocated) {
  if (!numErrors)
    report(("failed without an error: " + StringRef(slot.stage)).str(), "");
  if (isLocated && hasUnlocatedError)
    report(("error without a location: " + StringRef(slot.stage)).str(),
           firstError);
}
