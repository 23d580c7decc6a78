//===- ClearWords.h - A kernel that zeroes a buffer -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_CLEARWORDS_H
#define FP8MOE_LIB_KERNELS_EMIT_CLEARWORDS_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Threads of a block, which zeroes 16 bytes with each of them at a time.
inline constexpr int64_t kClearThreads = 256;

/// Builds kernel `name`: its arguments are a buffer, its size in chunks of 16
/// bytes, and the number of blocks.
void buildClearWords(Location loc, gpu::GPUModuleOp module, StringRef name,
                     const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_CLEARWORDS_H
