//===- LLVMErrors.h - LLVM's errors as diagnostics of MLIR ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_LLVMERRORS_H
#define FP8MOE_LIB_ARTIFACT_LLVMERRORS_H

#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"

namespace mlir::fp8moe {

/// Reports errors and warnings of `context` at `loc` during its lifetime.
/// LLVM's default handler exits the process at the first error.
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

/// Runs `action` and reports fatal errors of LLVM at `loc`, such as an
/// instruction that the chip lacks. These would otherwise abort the process. On
/// such an error no object of `action` is destroyed. So `action` must create
/// all objects that LLVM modifies, the LLVMContext included.
LogicalResult runCodeGeneration(Location loc,
                                function_ref<LogicalResult()> action);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_LLVMERRORS_H
