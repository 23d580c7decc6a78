//===- GPUTargets.h - Every vendor of GPUs ---------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The one place that knows all vendors: lowering and pipelines ask here for
// what their target needs.
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

/// The dialects of vendors, which kernels of any GPU have operations of.
void insertTargetDialects(DialectRegistry &registry);

/// Lowers the kernels of every gpu.module to the LLVM dialect and that of the
/// vendor of `target`, a GPU. Takes the builtin module.
void buildGPUToTargetPipeline(OpPassManager &pm, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_GPUTARGETS_GPUTARGETS_H
