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
#include "fp8moe/Artifact/ManifestWriter.h"

#include <optional>

namespace mlir::fp8moe {

struct ArtifactOptions {
  EmissionOptions emission;
  /// The compiler's choices and their reasons; copied into the manifest.
  llvm::json::Array decisions;
};

/// The files that were written, for reports.
struct ArtifactReport {
  struct File {
    std::string path;
    uint64_t bytes;
  };
  /// The manifest is the last one.
  SmallVector<File> files;
  /// Empty on the CPU, and on NVIDIA without ptxas.
  SmallVector<KernelResources> resources;
  /// The ptxas that was used; on NVIDIA empty when none was found, in which
  /// case there is no cubin and the driver compiles the PTX when it loads it.
  std::string ptxas;
};

/// Compiles `module`, which is at the level of the LLVM dialect and holds the
/// programs of fp8moe_plan, for `target` and writes the artifact into the
/// folder `dir`, which is created when it is missing.
///
/// Each file appears under its name when it is complete, the manifest last, and
/// binaries of an older artifact that the manifest does not name are removed.
/// So a reader sees the old artifact, the new one, or a checksum that does not
/// fit. Nothing is written when compilation fails.
FailureOr<ArtifactReport> writeArtifact(ModuleOp module,
                                        const TargetInfo &target, StringRef dir,
                                        const ArtifactOptions &options);

/// A single product of a compilation.
enum class EmitKind { LLVM, Assembly, PTX, Cubin, HSACO, SharedObject };

/// Compiles `module` as `writeArtifact` does and writes one product to `os`.
/// `asm` is PTX on NVIDIA and the assembly text of the chip elsewhere.
LogicalResult emitTo(ModuleOp module, const TargetInfo &target, EmitKind kind,
                     const EmissionOptions &options, raw_ostream &os);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_ARTIFACTWRITER_H
