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
#include "fp8moe/Conversion/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

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

static void addVendorPasses(OpPassManager &kernels, const TargetInfo &target) {
  switch (target.kind) {
  case TargetKind::NVVM:
    return addGPUToNVVMPasses(kernels);
  case TargetKind::ROCDL:
    return addGPUToROCDLPasses(kernels, target);
  case TargetKind::CPU:
    break;
  }
  llvm_unreachable("the target is not a GPU");
}

void fp8moe::buildGPUToTargetPipeline(OpPassManager &pm,
                                      const TargetInfo &target) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  // Passes that need to see one kernel only are nested, so that several kernels
  // are worked on at once.
  OpPassManager &structured = kernels.nest<gpu::GPUFuncOp>();
  structured.addPass(createCanonicalizerPass());
  structured.addPass(createCSEPass());
  structured.addPass(createSCFToControlFlowPass());
  addVendorPasses(kernels, target);
  OpPassManager &lowered = kernels.nest<LLVM::LLVMFuncOp>();
  lowered.addPass(createCanonicalizerPass());
  lowered.addPass(createCSEPass());
  lowered.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createAttachLoopAnnotations());
}
