//===- GPUTargets.cpp - Every vendor of GPUs ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/GPUToROCDL/GPUToROCDLPass.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
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

/// Replaces operations of the kernel dialect in a gpu.func.
static std::unique_ptr<Pass> createLowerKernel(const TargetInfo &target) {
  if (target.kind == TargetKind::NVVM)
    return createLowerKernelToNVVM();
  LowerKernelToROCDLOptions options;
  options.chip = target.chip.str();
  return createLowerKernelToROCDL(options);
}

/// From the GPU dialect with branches to LLVM and NVVM, in a gpu.module.
static void addNVVMPasses(OpPassManager &kernels) {
  kernels.addPass(createPassTensorMaps());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createPassTensorMaps());
  // Operations that are inline assembly.
  kernels.addNestedPass<LLVM::LLVMFuncOp>(createConvertNVVMToLLVMPass());
}

/// From the GPU dialect with branches to LLVM and ROCDL, in a gpu.module.
static void addROCDLPasses(OpPassManager &kernels, const TargetInfo &target) {
  ConvertGpuOpsToROCDLOpsOptions options;
  options.chipset = target.chip.str();
  options.runtime = gpu::amd::Runtime::HIP;
  kernels.addPass(createConvertGpuOpsToROCDLOps(options));
}

void fp8moe::buildGPUToTargetPipeline(OpPassManager &pm,
                                      const TargetInfo &target) {
  assert(target.isGPU() && "the target is not a GPU");
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  // Passes that need to see one kernel only are nested, so that several kernels
  // are worked on at once.
  OpPassManager &structured = kernels.nest<gpu::GPUFuncOp>();
  structured.addPass(kernel::createCheckMBarriers());
  structured.addPass(kernel::createCheckSynchronization());
  structured.addPass(createLowerKernel(target));
  structured.addPass(createCanonicalizerPass());
  structured.addPass(createCSEPass());
  structured.addPass(createSCFToControlFlowPass());
  if (target.kind == TargetKind::NVVM)
    addNVVMPasses(kernels);
  else
    addROCDLPasses(kernels, target);
  OpPassManager &lowered = kernels.nest<LLVM::LLVMFuncOp>();
  lowered.addPass(createCanonicalizerPass());
  lowered.addPass(createCSEPass());
  lowered.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createAttachLoopAnnotations());
}
