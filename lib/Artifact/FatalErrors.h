//===- FatalErrors.h - LLVM's fatal errors as diagnostics -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_FATALERRORS_H
#define FP8MOE_LIB_ARTIFACT_FATALERRORS_H

#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"

namespace mlir::fp8moe {

/// Runs code generation from the beginning to the end. Where LLVM would end the
/// process, as its back ends do on an instruction that the chip lacks, that
/// becomes an error at `loc`. Nothing that `action` has made is destroyed then:
/// it must make all that LLVM works on, the LLVMContext included.
LogicalResult runCodeGeneration(Location loc,
                                function_ref<LogicalResult()> action);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_FATALERRORS_H
