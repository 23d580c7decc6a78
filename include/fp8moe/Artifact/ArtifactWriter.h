//===- ArtifactWriter.h - Artifacts and single products ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_ARTIFACT_ARTIFACTWRITER_H
#define FP8MOE_ARTIFACT_ARTIFACTWRITER_H

#include "fp8moe/Artifact/CodeEmission.h"
#include "fp8moe/Artifact/KernelResources.h"
#include "llvm/Support/JSON.h"

#include <vector>

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
/// order of preference. `decisions` are the compiler's choices and reasons, for
/// reports. The output is deterministic.
LogicalResult writeManifest(ModuleOp module, const TargetInfo &target,
                            ArrayRef<ArtifactBinary> binaries,
                            const llvm::json::Array &decisions,
                            raw_ostream &os);

/// The files that were written, for reports.
struct ArtifactReport {
  /// Paths and sizes; the manifest is the last one.
  std::vector<std::pair<std::string, uint64_t>> files;
  /// Resources of the kernels. Empty on the CPU, and on NVIDIA without ptxas.
  SmallVector<KernelResources> resources;
};

/// Compiles `module` for `target` and writes the artifact into the folder
/// `dir`, which is created if missing. `module` is in the LLVM dialect, with
/// programs of fp8moe_plan. The manifest also gets `decisions`, the compiler's
/// choices and reasons.
///
/// Files are written atomically, the manifest last. Binaries of an older
/// artifact that the manifest does not name are then removed. So a reader sees
/// the old artifact, the new one, or a checksum mismatch. Nothing is written if
/// compilation fails.
FailureOr<ArtifactReport> writeArtifact(ModuleOp module,
                                        const TargetInfo &target, StringRef dir,
                                        const EmissionOptions &options,
                                        const llvm::json::Array &decisions);

/// A single product of a compilation.
enum class EmitKind { LLVM, Assembly, PTX, Cubin, HSACO, SharedObject };

/// Compiles `module` as `writeArtifact` does and writes one product to `os`.
/// `asm` is PTX on NVIDIA and the assembly text of the chip elsewhere.
LogicalResult emitTo(ModuleOp module, const TargetInfo &target, EmitKind kind,
                     const EmissionOptions &options, raw_ostream &os);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_ARTIFACTWRITER_H
