//===- NormalizeBlocks.h - Blocks in the order of dominance -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_NORMALIZEBLOCKS_H
#define FP8MOE_LIB_TRANSFORMS_NORMALIZEBLOCKS_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

/// Erases the blocks that a region's entry does not reach, lists each block
/// behind those that dominate it, and returns whether anything changed. Only in
/// unreachable blocks may views and copies read themselves in a cycle, which
/// walks along chains would never leave; and passes that go through a function
/// rely on it that what an operation reads comes before it.
bool normalizeBlocks(FunctionOpInterface function);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_NORMALIZEBLOCKS_H
