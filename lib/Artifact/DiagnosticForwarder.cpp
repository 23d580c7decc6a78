//===- DiagnosticForwarder.cpp - LLVM's diagnostics as MLIR's -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiagnosticForwarder.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/raw_ostream.h"

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
