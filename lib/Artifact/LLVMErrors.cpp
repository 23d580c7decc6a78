//===- LLVMErrors.cpp - LLVM's errors as diagnostics of MLIR --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LLVMErrors.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/raw_ostream.h"

#include <csetjmp>
#include <mutex>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class Forwarder : public llvm::DiagnosticHandler {
public:
  Forwarder(Location loc, bool &errorSeen) : loc(loc), errorSeen(errorSeen) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::DiagnosticPrinterRawOStream printer(os);
    info.print(printer);
    switch (info.getSeverity()) {
    case llvm::DS_Error:
      errorSeen = true;
      emitError(loc) << "code generation failed: " << text;
      break;
    case llvm::DS_Warning:
      emitWarning(loc) << "code generation: " << text;
      break;
    case llvm::DS_Remark:
    case llvm::DS_Note:
      break;
    }
    return true;
  }

private:
  Location loc;
  bool &errorSeen;
};

} // namespace

DiagnosticScope::DiagnosticScope(llvm::LLVMContext &context, Location loc)
    : context(context), previous(context.getDiagnosticHandler()) {
  context.setDiagnosticHandler(std::make_unique<Forwarder>(loc, errorSeen));
}

DiagnosticScope::~DiagnosticScope() {
  context.setDiagnosticHandler(std::move(previous));
}

//===----------------------------------------------------------------------===//
// Fatal errors
//===----------------------------------------------------------------------===//

namespace {
/// Where a thread goes on after a fatal error, and what that was. Not a local
/// variable of who jumps back: a jump may lose what was written to these.
struct Recovery {
  bool isActive = false;
  std::jmp_buf place;
  std::string reason;
};
} // namespace

static thread_local Recovery recovery;

/// LLVM ends the process when this returns.
static void handleFatalError(void *, const char *reason, bool) {
  if (!recovery.isActive) {
    llvm::errs() << "LLVM ERROR: " << reason << "\n";
    return;
  }
  recovery.reason = reason;
  std::longjmp(recovery.place, 1);
}

LogicalResult
mlir::fp8moe::runCodeGeneration(Location loc,
                                function_ref<LogicalResult()> action) {
  static std::once_flag installed;
  std::call_once(installed,
                 [] { llvm::install_fatal_error_handler(handleFatalError); });
  // Code of a kernel is generated within that of all, in this thread or
  // another.
  Recovery outer = recovery;
  recovery.isActive = true;
  llvm::scope_exit reset([&] { recovery = outer; });
  // Without restoring this state, the next crash would print the entries of
  // frames that a jump leaves.
  const void *stackTrace = llvm::SavePrettyStackState();
  // LLVM has no exceptions, so that a jump is the only way out, as in its own
  // CrashRecoveryContext, which would also take the process's signals.
  if (setjmp(recovery.place) == 0)
    return action();
  llvm::RestorePrettyStackState(stackTrace);
  return emitError(loc) << "code generation failed: " << recovery.reason;
}
