//===- Ptxas.h - NVIDIA's assembler -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_ARTIFACT_PTXAS_H
#define FP8MOE_ARTIFACT_PTXAS_H

#include "fp8moe/Artifact/KernelResources.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace mlir::fp8moe {

/// The output of ptxas for one module.
struct Cubin {
  std::string bytes;
  SmallVector<KernelResources> resources;
};

/// Finds ptxas: `explicitPath` unless empty, `FP8MOE_PTXAS`, `PATH`,
/// `CUDA_HOME`, /usr/local/cuda. Returns std::nullopt if none of these has it.
/// Reports at `loc` a path from the first two that is not executable.
FailureOr<std::optional<std::string>> findPtxas(StringRef explicitPath,
                                                Location loc);

/// Assembles `ptx` for `chip`. Spills, warnings, and remarks on serialized
/// matrix instructions (C75xx) are errors at the kernel of `module`. Each means
/// a kernel that is many times slower than predicted. If a kernel spills, its
/// occupancy target in `ptx` is first lowered, down to one.
FailureOr<Cubin> assemblePTX(StringRef ptxas, std::string &ptx, StringRef chip,
                             ModuleOp module);

/// Lowers the occupancy target (`.minnctapersm`) of each kernel that spills by
/// one, if above one, so that ptxas may use more registers. Returns whether any
/// kernel changed.
bool leaveMoreRegisters(std::string &ptx, ArrayRef<KernelResources> resources);

/// Parses the resources of every kernel from the output of `ptxas -v`, in its
/// order.
SmallVector<KernelResources> parsePtxasResources(StringRef log);

/// Returns the lines of a ptxas log that fail a compilation although ptxas
/// accepted the code: warnings and C75xx remarks.
SmallVector<StringRef> findPtxasComplaints(StringRef log);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_PTXAS_H
