//===- DiagnosticForwarder.h - LLVM's diagnostics as MLIR's -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_DIAGNOSTICFORWARDER_H
#define FP8MOE_LIB_ARTIFACT_DIAGNOSTICFORWARDER_H

#include "mlir/IR/Location.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"

namespace mlir::fp8moe {

/// While it lives, errors and warnings of `context` are reported at `loc`.
/// LLVM's own handler ends the process at the first error.
class DiagnosticScope {
public:
  DiagnosticScope(llvm::LLVMContext &context, Location loc);
  ~DiagnosticScope();

  bool hadError() const { return errorSeen; }

private:
  llvm::LLVMContext &context;
  std::unique_ptr<llvm::DiagnosticHandler> previous;
  bool errorSeen = false;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_DIAGNOSTICFORWARDER_H
