//===- GPUTargets.h - Every vendor of GPUs ---------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The only code that knows all GPU vendors. Lowering and pipelines use it for
// everything that depends on the vendor.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_GPUTARGETS_GPUTARGETS_H
#define FP8MOE_CONVERSION_GPUTARGETS_GPUTARGETS_H

#include "fp8moe/Target/TargetInfo.h"

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace mlir::fp8moe {

/// Inserts the vendors' dialects whose operations kernels may contain.
void insertTargetDialects(DialectRegistry &registry);

/// Adds the passes that lower the kernels of every gpu.module to the LLVM
/// dialect and the dialect of the vendor of `target`, a GPU. `pm` runs on the
/// builtin module.
void buildGPUToTargetPipeline(OpPassManager &pm, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_GPUTARGETS_GPUTARGETS_H
