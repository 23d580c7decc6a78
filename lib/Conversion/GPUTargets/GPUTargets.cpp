//===- GPUTargets.cpp - Every vendor of GPUs ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/GPUTargets/GPUTargets.h"

#include "fp8moe/Conversion/GPUToNVVM/GPUToNVVM.h"
#include "fp8moe/Conversion/GPUToROCDL/GPUToROCDL.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::insertTargetDialects(DialectRegistry &registry) {
  registry.insert<NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
}

std::unique_ptr<TargetHooks>
fp8moe::createTargetHooks(const TargetInfo &target) {
  switch (target.kind) {
  case TargetKind::NVVM:
    return createNVVMTargetHooks(target);
  case TargetKind::ROCDL:
    return createROCDLTargetHooks(target);
  case TargetKind::CPU:
    return nullptr;
  }
  llvm_unreachable("unknown kind of target");
}

void fp8moe::buildGPUToTargetPipeline(OpPassManager &pm,
                                      const TargetInfo &target) {
  switch (target.kind) {
  case TargetKind::NVVM:
    return buildGPUToNVVMPipeline(pm, target);
  case TargetKind::ROCDL:
    return buildGPUToROCDLPipeline(pm, target);
  case TargetKind::CPU:
    break;
  }
  llvm_unreachable("the target is not a GPU");
}
