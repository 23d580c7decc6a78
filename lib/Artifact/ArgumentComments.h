//===- ArgumentComments.h - Arguments of kernels as comments ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_ARGUMENTCOMMENTS_H
#define FP8MOE_LIB_ARTIFACT_ARGUMENTCOMMENTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fp8moe {

/// Prints what each argument of each kernel is, as its first launch passes it.
/// Lines begin with `comment`.
void printArgumentComments(ModuleOp module, StringRef comment, raw_ostream &os);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_ARGUMENTCOMMENTS_H
