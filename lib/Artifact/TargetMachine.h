//===- TargetMachine.h - LLVM's machine of a known target -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_TARGETMACHINE_H
#define FP8MOE_LIB_ARTIFACT_TARGETMACHINE_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/Location.h"

#include <memory>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::fp8moe {

/// Creates the target machine, or reports at `loc` why this LLVM has none.
std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const TargetInfo &target, Location loc);

/// Sets the triple, the data layout and the ABI of `llvmModule`.
void prepareModule(llvm::Module &llvmModule, llvm::TargetMachine &machine,
                   const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_TARGETMACHINE_H
