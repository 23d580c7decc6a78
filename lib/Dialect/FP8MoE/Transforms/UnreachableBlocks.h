//===- UnreachableBlocks.h - Blocks that nobody enters ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_UNREACHABLEBLOCKS_H
#define FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_UNREACHABLEBLOCKS_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::fp8moe {

/// Erases the blocks that the function's entry does not reach and returns
/// whether there were any. Only in these may views and copies read themselves
/// in a cycle, which walks along chains would never leave.
inline bool eraseUnreachable(FunctionOpInterface function) {
  // Nearly every function has one block; looking into all regions costs time.
  if (function.getFunctionBody().hasOneBlock())
    return false;
  IRRewriter rewriter(function.getContext());
  return succeeded(eraseUnreachableBlocks(rewriter, function->getRegions()));
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_UNREACHABLEBLOCKS_H
