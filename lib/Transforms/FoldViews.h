//===- FoldViews.h - Folding of views inside a function ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_FOLDVIEWS_H
#define FP8MOE_LIB_TRANSFORMS_FOLDVIEWS_H

#include "ViewExpression.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

namespace mlir::fp8moe {

/// Lets a kernel that reads a reshape of a tensor read the tensor itself, when
/// the program views the results back into the tensor's shape; its results are
/// reshaped instead. Returns the kernel that took the place of `kernel`, or
/// null when nothing changed.
Operation *sinkReshapeBelow(KernelOpInterface kernel);

/// Lets a kernel that works on slices of a transposed tensor, or of copies of
/// one, read the tensor itself; its results are transposed instead. Returns the
/// kernel that took the place of `kernel`, or null when nothing changed.
Operation *sinkTransposeBelow(KernelOpInterface kernel);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_FOLDVIEWS_H
