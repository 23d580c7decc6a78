//===- Readers.h - Who reads inputs --------------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_READERS_H
#define FP8MOE_TOOLS_FUZZ_READERS_H

#include "Session.h"

#include "mlir/Pass/PassManager.h"

namespace fuzz {

struct Outcome {
  bool accepted = false;
  bool lowered = false;
};

/// Gives the input to the one that reads its kind. An event that must not
/// happen ends the process: by itself, or by `Session::report`.
Outcome readInput(const Input &input, Session &session);

// The kinds.
Outcome readModule(const Input &input, Session &session);
Outcome readBytecode(const Input &input, Session &session);
Outcome readPipeline(const Input &input, Session &session);
Outcome readManifest(const Input &input, Session &session);
Outcome readBinary(const Input &input, Session &session);
Outcome readSafetensors(const Input &input, Session &session);

/// Compiles `module` as `choice` says: a chip, the last stage, and options.
Outcome compileModule(mlir::ModuleOp module, llvm::StringRef choice,
                      Session &session);

/// Prepares a pass manager so that the stage names the pass that runs and, with
/// `verifies`, IR that a pass leaves invalid is a find.
void watchPasses(mlir::PassManager &pm, Session &session, bool verifies = true);

/// Loads the artifact in `folder`, resolves its programs with shapes that
/// follow from `seed`, and describes them.
Outcome readArtifact(const std::string &folder, const std::string &device,
                     uint64_t seed, Session &session);

/// Puts the contents of a file in place.
void writeFile(const std::string &path, llvm::StringRef contents);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_READERS_H
