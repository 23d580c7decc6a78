//===- ClearedWorkspace.h - Memory of zeros for kernels ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_CLEAREDWORKSPACE_H
#define FP8MOE_LIB_KERNELS_PROGRAM_CLEAREDWORKSPACE_H

#include "Kernels/Program/ProgramLowering.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// Creates a workspace of `words` i32, aligned to `alignment` bytes.
Value createWordWorkspace(ImplicitLocOpBuilder &b, const HostSize &words,
                          int64_t alignment);

/// Creates a workspace of `words` i32, a multiple of four, aligned to
/// `alignment` bytes. A launch zeroes it where `when` (i1, null for always)
/// holds.
Value createClearedWorkspace(ImplicitLocOpBuilder &b, ProgramLowering &lowering,
                             const HostSize &words, int64_t alignment,
                             Value when);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_CLEAREDWORKSPACE_H
