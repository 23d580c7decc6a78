//===- CpuEntries.h - Packed entry points of CPU kernels --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_CPUENTRIES_H
#define FP8MOE_LIB_ARTIFACT_CPUENTRIES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fp8moe {

/// Gives every function that a program of `module` launches the entry
/// `void NAME(void **params)`, which loads the parameters and calls it, and
/// makes everything else in `llvmModule` internal.
LogicalResult createCpuEntries(ModuleOp module, llvm::Module &llvmModule);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_CPUENTRIES_H
