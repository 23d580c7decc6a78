//===- CodeSteps.h - Steps from MLIR to machine code ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_CODESTEPS_H
#define FP8MOE_LIB_ARTIFACT_CODESTEPS_H

#include "fp8moe/Artifact/KernelResources.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::fp8moe {

/// Reports the first operation, intrinsic or attribute in `root` that only
/// another vendor's GPUs support. LLVM's back ends would abort the process on
/// it.
LogicalResult verifyVendor(Operation *root, const TargetInfo &target);

/// Checks that the target has the features of the launches: tensor maps,
/// clusters, cooperative launches. Kernels that use one do not compile for
/// other targets.
LogicalResult verifyLaunchFeatures(ModuleOp module, const TargetInfo &target);

/// Checks block size and shared memory of every launch against the limits of
/// the target and of the compiled kernels. Otherwise the first launch would
/// fail in the driver without a reason.
LogicalResult verifyLaunchLimits(ModuleOp module, const TargetInfo &target,
                                 ArrayRef<KernelResources> resources);

/// Prints a description of each argument of each kernel, from the kernel's
/// first launch. Lines begin with `comment`.
void printArgumentComments(ModuleOp module, StringRef comment, raw_ostream &os);

/// Creates the target machine, or reports at `loc` why this LLVM has none.
std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const TargetInfo &target, Location loc);

/// Sets the triple, the data layout and the ABI of `llvmModule`.
void prepareModule(llvm::Module &llvmModule, llvm::TargetMachine &machine,
                   const TargetInfo &target);

/// Creates the entry `void NAME(void **params)` of every function that a
/// program of `module` launches. It loads the parameters and calls the
/// function. Everything else in `llvmModule` becomes internal.
LogicalResult createCpuEntries(ModuleOp module, llvm::Module &llvmModule);

/// Replaces bf16 by integers in loads, phis, selects, freezes and stores, so
/// that code generation keeps every bit of values without arithmetic.
void moveBFloatsAsIntegers(llvm::Module &llvmModule);

/// Links the functions of ROCm's device libraries (`__ocml_*`, `__ockl_*`) that
/// kernels call. Does nothing if there are no such calls.
LogicalResult linkDeviceLibraries(llvm::Module &llvmModule,
                                  const TargetInfo &target, StringRef rocmPath,
                                  Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_CODESTEPS_H
