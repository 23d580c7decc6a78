//===- KernelFixture.h - A module for kernels under test --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_KERNELS_KERNELFIXTURE_H
#define FP8MOE_UNITTESTS_KERNELS_KERNELFIXTURE_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "gtest/gtest.h"

namespace mlir::fp8moe {

/// An empty gpu.module for kernels of a chip.
class KernelFixture : public ::testing::Test {
protected:
  explicit KernelFixture(llvm::StringRef chip = "sm_90a")
      : target(*lookupTarget(chip)) {
    DialectRegistry registry;
    insertTargetDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.loadDialect<arith::ArithDialect, gpu::GPUDialect,
                        kernel::KernelDialect, LLVM::LLVMDialect,
                        plan::PlanDialect, scf::SCFDialect,
                        vector::VectorDialect>();
    OpBuilder builder(&context);
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    kernels =
        gpu::GPUModuleOp::create(builder, builder.getUnknownLoc(), "kernels");
  }

  const TargetInfo &target;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp kernels;
};

/// A kernel of 128 threads with one pointer, for building into.
class BuilderFixture : public KernelFixture {
protected:
  explicit BuilderFixture(llvm::StringRef chip = "sm_90a")
      : KernelFixture(chip),
        b(module->getLoc(), kernels, "k", getSignature(), target) {}

  static KernelSignature getSignature() {
    KernelSignature signature;
    signature.pointers = 1;
    signature.hasBlockCount = false;
    signature.threads = 128;
    return signature;
  }

  static int64_t valueOf(Value value) {
    APInt constant;
    EXPECT_TRUE(matchPattern(value, m_ConstantInt(&constant)));
    return constant.getSExtValue();
  }

  /// Returns the operations of a type, in order.
  template <typename Op> SmallVector<Op> getAll() {
    SmallVector<Op> found;
    b.getKernel().walk([&](Op op) { found.push_back(op); });
    return found;
  }

  KernelBuilder b;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_UNITTESTS_KERNELS_KERNELFIXTURE_H
