//===- KernelPatterns.h - Patterns of kernel operations ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H
#define FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H

#include "fp8moe/Dialect/Kernel/Transforms/Lowering.h"

namespace mlir::fp8moe {

using kernel::createAssembly, kernel::createI32;

// Lower the operations of KernelSync.td, KernelCopies.td and KernelMatrix.td.
void populateSyncPatterns(RewritePatternSet &patterns);
void populateCopyPatterns(RewritePatternSet &patterns);
void populateMatrixPatterns(RewritePatternSet &patterns);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H
