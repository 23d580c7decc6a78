//===- PairBlocks.h - MX quantizations along both axes -------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PAIRBLOCKS_H
#define FP8MOE_LIB_TRANSFORMS_PAIRBLOCKS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

struct TargetInfo;

/// Makes one operation of two MX quantizations of one tensor along different
/// axes, at the place of the first, where the target has a kernel that reads
/// the tensor once. Returns how many pairs there were.
unsigned pairBlockQuantizations(FunctionOpInterface function,
                                const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PAIRBLOCKS_H
