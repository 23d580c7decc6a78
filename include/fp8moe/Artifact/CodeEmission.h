//===- CodeEmission.h - From the LLVM dialect to target code ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps from a lowered module to the bytes of a target's binary. Each takes
// the product of the one before, so that tools can stop anywhere:
//
//   emitLLVMIR    LLVM dialect -> optimized llvm::Module (all targets)
//   emitAssembly  -> PTX, AMDGCN or x86 text
//   emitSharedObject  -> HSACO or .so, linked in process (AMD, CPU)
//   assemblePTX   -> cubin (NVIDIA; Ptxas.h)
//
// Errors are reported at the location of the module or kernel. No step
// contracts multiplications and additions, flushes subnormals or assumes
// anything about NaN: results are bit-exact by contract.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_ARTIFACT_CODEEMISSION_H
#define FP8MOE_ARTIFACT_CODEEMISSION_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "mlir/Support/Timing.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir::fp8moe {

struct EmissionOptions {
  /// A ROCm installation or a folder with `amdgcn/bitcode`; empty: `ROCM_PATH`,
  /// then the usual places. Only looked at when a kernel calls a device
  /// library.
  std::string rocmPath;
  /// The ptxas to use; empty: `FP8MOE_PTXAS`, `PATH`, then the usual places.
  std::string ptxasPath;
  /// The scope that records the time of each step; may be null.
  TimingScope *timing = nullptr;

  /// Starts a timer that stops when the result is destroyed.
  TimingScope time(StringRef step) const {
    return timing ? timing->nest(step) : TimingScope();
  }
};

/// Registers the translations to LLVM IR that emission needs. Tools and passes
/// call it before they emit.
void registerArtifactTranslations(DialectRegistry &registry);

/// Translates the kernels of `module` to LLVM IR for `target` and optimizes
/// them. Returns null after reporting an error.
///
/// On a GPU the kernels are the contents of the only `gpu.module`. On the CPU
/// they are the LLVM dialect functions of `module`. Each function that a
/// `fp8moe_plan.launch` names becomes internal there, and a wrapper `void
/// NAME(void **params)` takes its place.
std::unique_ptr<llvm::Module> emitLLVMIR(ModuleOp module,
                                         const TargetInfo &target,
                                         const EmissionOptions &options,
                                         llvm::LLVMContext &context);

/// Generates the target's assembly text: PTX, AMDGCN or x86.
FailureOr<std::string> emitAssembly(llvm::Module &llvmModule,
                                    const TargetInfo &target, Location loc);

/// Generates an object for an AMD GPU or the CPU. Links it into a shared object
/// (HSACO or .so) with the linker in this process.
FailureOr<std::string> emitSharedObject(llvm::Module &llvmModule,
                                        const TargetInfo &target, Location loc);

/// Returns the operation of the kernel `name` for locations of errors, or
/// `module` if there is none.
Operation *findKernel(ModuleOp module, StringRef name);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_CODEEMISSION_H
