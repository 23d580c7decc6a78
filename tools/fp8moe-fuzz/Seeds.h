//===- Seeds.h - Seeds that are made from others -------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_SEEDS_H
#define FP8MOE_TOOLS_FUZZ_SEEDS_H

#include "Corpus.h"

namespace fuzz {

/// Each public function of a module at the tensor level with what it calls, as
/// a module of its own; nothing for lower levels.
std::vector<std::string> splitPrograms(mlir::ModuleOp module);

/// The pipelines that the RUN lines of a test give to fp8moe-opt.
std::vector<PipelineSeed> extractPipelines(llvm::StringRef test);

/// Artifacts for a target of each kind, from programs with different
/// operations.
std::vector<ArtifactSeed>
compileArtifacts(const std::vector<ModuleSeed> &programs,
                 llvm::StringRef scratch);

/// Small files with all element types.
std::vector<std::string> makeSafetensors(llvm::StringRef scratch);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_SEEDS_H
