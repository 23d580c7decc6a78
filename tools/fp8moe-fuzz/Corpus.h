//===- Corpus.h - What mutations begin with ------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_CORPUS_H
#define FP8MOE_TOOLS_FUZZ_CORPUS_H

#include "Dictionary.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fuzz {

/// A module of a test, an example or a benchmark.
struct ModuleSeed {
  std::string text;
  Tokens tokens;
};

/// A pipeline of a test with the modules of the same file.
struct PipelineSeed {
  /// With the operation that it runs on, or a list of passes for any.
  bool isAnchored;
  std::string text;
  std::vector<size_t> modules;
};

/// A compiled module.
struct ArtifactSeed {
  std::string name, chip, manifest;
  /// Names and contents of the binaries.
  std::vector<std::pair<std::string, std::string>> files;
};

struct Corpus {
  /// Every part of every file, also those that the parser refuses.
  std::vector<ModuleSeed> modules;
  /// One public function of the tensor level each, accepted by the verifier.
  std::vector<ModuleSeed> programs;
  std::vector<PipelineSeed> pipelines;
  std::vector<std::string> bytecode;
  std::vector<ArtifactSeed> artifacts;
  std::vector<std::string> safetensors;
  Dictionary irDictionary, pipelineDictionary;

  const ArtifactSeed *findArtifact(llvm::StringRef name) const;
};

/// Reads all files under `folders`, in the order of their names, and compiles
/// some of them; temporary files go to `scratch`.
llvm::Expected<Corpus> loadCorpus(llvm::ArrayRef<std::string> folders,
                                  llvm::StringRef scratch);

/// The dialects of the compiler, with what emission needs.
const mlir::DialectRegistry &getRegistry();

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_CORPUS_H
