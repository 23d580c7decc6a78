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
/// another vendor's GPUs have. Back ends end the process on them.
LogicalResult verifyVendor(Operation *root, const TargetInfo &target);

/// Checks that the target has what the launches use: tensor maps, clusters,
/// cooperative launches. Kernels that use them do not compile for others.
LogicalResult verifyLaunchFeatures(ModuleOp module, const TargetInfo &target);

/// Checks the block and shared memory of every launch against the target and
/// against what the kernels were compiled for. A violation would otherwise be
/// an opaque failure of the driver at the first launch.
LogicalResult verifyLaunchLimits(ModuleOp module, const TargetInfo &target,
                                 ArrayRef<KernelResources> resources);

/// Prints what each argument of each kernel is, as its first launch passes it.
/// Lines begin with `comment`.
void printArgumentComments(ModuleOp module, StringRef comment, raw_ostream &os);

/// Creates the target machine, or reports at `loc` why this LLVM has none.
std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const TargetInfo &target, Location loc);

/// Sets the triple, the data layout and the ABI of `llvmModule`.
void prepareModule(llvm::Module &llvmModule, llvm::TargetMachine &machine,
                   const TargetInfo &target);

/// Gives every function that a program of `module` launches the entry
/// `void NAME(void **params)`, which loads the parameters and calls it, and
/// makes everything else in `llvmModule` internal.
LogicalResult createCpuEntries(ModuleOp module, llvm::Module &llvmModule);

/// Loads, merges, chooses and stores values of bf16 as integers, so that code
/// generation keeps every bit of what is not computed with.
void moveBFloatsAsIntegers(llvm::Module &llvmModule);

/// Links what the kernels call of ROCm's device libraries (`__ocml_*`,
/// `__ockl_*`). Without such calls nothing is searched for and nothing changes.
LogicalResult linkDeviceLibraries(llvm::Module &llvmModule,
                                  const TargetInfo &target, StringRef rocmPath,
                                  Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_CODESTEPS_H
