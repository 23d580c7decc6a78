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

/// The product of ptxas.
struct Cubin {
  std::string bytes;
  SmallVector<KernelResources> resources;
};

/// The path of ptxas: `explicitPath` when it is not empty, `FP8MOE_PTXAS`, in
/// `PATH`, in `CUDA_HOME` or /usr/local/cuda; nothing when it is nowhere. A
/// path that the user gave and that is not executable is an error at `loc`.
FailureOr<std::optional<std::string>> findPtxas(StringRef explicitPath,
                                                Location loc);

/// Assembles `ptx` for `chip`. Spilled registers, warnings of ptxas and its
/// remarks on serialized matrix instructions (C75xx) are errors, at the kernel
/// of `module` that they are about: each means a kernel that is many times
/// slower than its schedule says. A kernel that asks for several resident
/// blocks gets fewer where it would spill; `ptx` says so then.
FailureOr<Cubin> assemblePTX(StringRef ptxas, std::string &ptx, StringRef chip,
                             ModuleOp module);

/// Lowers `.minnctapersm` by one, if it is above one, in each kernel that
/// spills, so that ptxas may use more registers. Returns whether any kernel
/// changed.
bool leaveMoreRegisters(std::string &ptx, ArrayRef<KernelResources> resources);

/// Reads the resources of every kernel from what `ptxas -v` prints, in order.
SmallVector<KernelResources> parsePtxasResources(StringRef log);

/// The lines of a log of ptxas that make a compilation fail although ptxas
/// accepted the code: warnings and remarks of the C75xx kind.
SmallVector<StringRef> findPtxasComplaints(StringRef log);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_PTXAS_H
