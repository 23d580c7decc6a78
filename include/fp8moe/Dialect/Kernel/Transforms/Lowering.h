//===- Lowering.h - What lowerings of kernels share -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H
#define FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H

#include "mlir/IR/PatternMatch.h"

namespace mlir::fp8moe::kernel {

/// Emits an error at each operation of the kernel dialect inside `root` that no
/// pattern lowers, as the vendor's GPUs lack it, and at each one that expects
/// another number of lanes than their subgroups have.
LogicalResult requireLowerings(Operation *root, RewritePatternSet &patterns,
                               StringRef vendor, unsigned lanes);

} // namespace mlir::fp8moe::kernel

#endif // FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H
