//===- KernelFixture.h - A module for kernels under test --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_CONVERSION_KERNELFIXTURE_H
#define FP8MOE_UNITTESTS_CONVERSION_KERNELFIXTURE_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"
#include "fp8moe/Conversion/GPUToNVVM/GPUToNVVM.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "gtest/gtest.h"

namespace mlir::fp8moe {

/// An empty gpu.module, for kernels of sm_90a.
class KernelFixture : public ::testing::Test {
protected:
  KernelFixture() {
    context.loadDialect<arith::ArithDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                        NVVM::NVVMDialect, plan::PlanDialect, scf::SCFDialect,
                        vector::VectorDialect>();
    OpBuilder builder(&context);
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    kernels =
        gpu::GPUModuleOp::create(builder, builder.getUnknownLoc(), "kernels");
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp kernels;
  std::unique_ptr<TargetHooks> hooks =
      createNVVMTargetHooks(*lookupTarget("sm_90a"));
};

} // namespace mlir::fp8moe

#endif // FP8MOE_UNITTESTS_CONVERSION_KERNELFIXTURE_H
