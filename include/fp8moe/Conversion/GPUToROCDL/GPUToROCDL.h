//===- GPUToROCDL.h - AMD hooks and lowering --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H
#define FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H

#include "fp8moe/Conversion/GPUCommon/TargetHooks.h"
#include "fp8moe/Target/TargetInfo.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::fp8moe {

std::unique_ptr<TargetHooks> createROCDLTargetHooks(const TargetInfo &target);

/// Lowers the kernels of every gpu.module to the LLVM and ROCDL dialects. Takes
/// the builtin module.
void buildGPUToROCDLPipeline(OpPassManager &pm, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_GPUTOROCDL_GPUTOROCDL_H
