//===- VerifyVendor.h - No instructions of another vendor -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_VERIFYVENDOR_H
#define FP8MOE_LIB_ARTIFACT_VERIFYVENDOR_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/Operation.h"

namespace mlir::fp8moe {

/// Reports the first operation, intrinsic or attribute in `root` that only
/// another vendor's GPUs have. Back ends end the process on them.
LogicalResult verifyVendor(Operation *root, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_VERIFYVENDOR_H
