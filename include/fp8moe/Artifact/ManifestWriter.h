//===- ManifestWriter.h - Programs as manifest.json -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_ARTIFACT_MANIFESTWRITER_H
#define FP8MOE_ARTIFACT_MANIFESTWRITER_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace mlir::fp8moe {

/// One binary of an artifact.
struct ArtifactBinary {
  /// The file's name in the artifact's folder.
  std::string file;
  /// "so", "cubin", "ptx" or "hsaco".
  std::string format;
  std::string bytes;
};

/// Writes the programs of `module` as a manifest of schema 1. `binaries` are in
/// order of preference; `decisions` is what the compiler chose and why, for
/// reports. The same input gives the same text.
LogicalResult writeManifest(ModuleOp module, const TargetInfo &target,
                            ArrayRef<ArtifactBinary> binaries,
                            const llvm::json::Array &decisions,
                            raw_ostream &os);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_MANIFESTWRITER_H
