//===- Target.h - Common parts of fuzz targets ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_TARGET_H
#define FP8MOE_TOOLS_FUZZERS_TARGET_H

#include "Mutators.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace fuzz {

/// Prints the invariant that the input violates, and aborts the process.
[[noreturn]] void reportBroken(const llvm::Twine &promise,
                               llvm::StringRef details = "");

inline llvm::StringRef toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Returns the input as text. Aborts if the input contains the text of
/// `FP8MOE_FUZZ_PLANTED_DEFECT`: tests check that the fuzzer finds this planted
/// defect.
llvm::StringRef getInput(const uint8_t *data, size_t size);

/// Returns a temporary folder of this process. It is removed at exit, unless
/// the fuzzer found a defect.
const std::string &getScratch();

void writeFile(const std::string &path, llvm::StringRef contents);

/// Loads an artifact, resolves its programs with shapes derived from `seed`,
/// and describes the calls. Runs nothing, as the binaries are untrusted code.
/// Returns false if the runtime rejects the artifact with an error.
bool readArtifact(const std::string &folder, const char *device, uint64_t seed);

/// Runs the compiler on one input, and checks its errors.
class Compiler {
public:
  Compiler();

  mlir::MLIRContext &getContext() { return context; }

  /// Parses a module. Returns null after an error with a location. Also returns
  /// null for text that is known to crash MLIR's own parser or verifier.
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text);

  /// Sets the name of the current stage, for reports.
  void enter(llvm::StringRef name) { stage = name.str(); }

  /// Names each pass as a stage. With `verifies`, aborts if a pass leaves
  /// invalid IR.
  void watch(mlir::PassManager &pm, bool verifies);

  /// Checks that a failed stage has reported an error, with a location if
  /// `isLocated`. Aborts otherwise.
  void expectError(bool isLocated = true) const;

  const std::string &getErrors() const { return errors; }

private:
  mlir::MLIRContext context;
  std::string stage, errors;
  bool isUnlocated = false;
};

/// Splits an input into its first line, without slashes, and the rest. The
/// first line is a comment that selects target and stage: `// sm_90a asm`.
std::pair<llvm::StringRef, llvm::StringRef> splitInput(llvm::StringRef input);

/// Mutates the first line. Each fuzz target defines this. `other` is the first
/// line of another input, or empty.
std::string mutateChoice(llvm::StringRef choice, llvm::StringRef other,
                         Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_TARGET_H
