//===- GPUToROCDL.h - AMD hooks and lowering --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H
#define FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H

#include "fp8moe/Kernels/Emit/TargetHooks.h"
#include "fp8moe/Target/TargetInfo.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::fp8moe {

std::unique_ptr<TargetHooks> createROCDLTargetHooks(const TargetInfo &target);

/// From the GPU dialect with branches to the LLVM and ROCDL dialects, on a
/// gpu.module.
void addGPUToROCDLPasses(OpPassManager &kernels, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H
