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

/// Runs code generation from the beginning to the end. Where LLVM would end the
/// process, as its back ends do on an instruction that the chip lacks, that
/// becomes an error at `loc`. Nothing that `action` has made is destroyed then:
/// it must make all that LLVM works on, the LLVMContext included.
LogicalResult runCodeGeneration(Location loc,
                                function_ref<LogicalResult()> action);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_LLVMERRORS_H
