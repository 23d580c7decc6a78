//===- Compiler.h - The compiler in fuzz targets ----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_COMPILER_H
#define FP8MOE_TOOLS_FUZZERS_COMPILER_H

#include "Mutators.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace fuzz {

/// Reads one input with the compiler, and watches the errors.
class Compiler {
public:
  Compiler();

  mlir::MLIRContext &getContext() { return context; }

  /// Parses a module; null after a located error. Text that ends MLIR's own
  /// parser is left out.
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text);

  /// Names the stage that begins, for reports.
  void enter(llvm::StringRef name) { stage = name.str(); }

  /// With `verifies`, IR that a pass leaves invalid ends the process.
  void watch(mlir::PassManager &pm, bool verifies);

  /// Called when a stage failed: an error must say why and where.
  void expectError(bool isLocated = true) const;

  const std::string &getErrors() const { return errors; }

private:
  mlir::MLIRContext context;
  std::string stage, errors;
  bool isUnlocated = false;
};

/// Inputs are modules whose first line, a comment, says what is done with them:
/// `// sm_90a asm`. Returns it without slashes, and the rest.
std::pair<llvm::StringRef, llvm::StringRef> splitInput(llvm::StringRef input);

/// Each target's own: another text for the first line. `other` is that of
/// another input, or nothing.
std::string mutateChoice(llvm::StringRef choice, llvm::StringRef other,
                         Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_COMPILER_H
