//===- KernelCacheTest.cpp - Tests of the kernels of a module -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/KernelCache.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class KernelCacheTest : public KernelFixture {
protected:
  static void build(gpu::GPUModuleOp module, StringRef name) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    gpu::GPUFuncOp::create(builder, module.getLoc(), name,
                           builder.getFunctionType({}, {}));
  }

  Attribute getKey(int64_t number) {
    return Builder(&context).getI64IntegerAttr(number);
  }

  KernelCache cache{*module, target};
};

TEST_F(KernelCacheTest, BuildsEqualKernelsOnce) {
  int built = 0;
  auto get = [&](StringRef prefix, int64_t key) {
    return cache.getOrBuild(
        prefix, getKey(key),
        [&](gpu::GPUModuleOp kernels, StringRef name, const TargetInfo &) {
          ++built;
          build(kernels, name);
        });
  };
  SymbolRefAttr first = get("copy", 1);
  EXPECT_EQ(get("copy", 1), first);
  EXPECT_EQ(built, 1);
  EXPECT_NE(get("copy", 2), first);
  EXPECT_NE(get("quantize", 1), first);
  EXPECT_EQ(built, 3);
}

TEST_F(KernelCacheTest, ABuilderMayAskForOtherKernels) {
  SymbolRefAttr inner;
  SymbolRefAttr outer = cache.getOrBuild(
      "copy", getKey(1),
      [&](gpu::GPUModuleOp kernels, StringRef name, const TargetInfo &) {
        // Enough of them to move what the cache holds.
        for (int64_t key = 2; key < 200; ++key)
          inner = cache.getOrBuild(
              "copy", getKey(key),
              [](gpu::GPUModuleOp kernels, StringRef name, const TargetInfo &) {
                build(kernels, name);
              });
        build(kernels, name);
      });
  EXPECT_NE(inner, outer);
  for (SymbolRefAttr kernel : {inner, outer})
    EXPECT_TRUE(
        SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(*module, kernel));
  auto unexpected = [](gpu::GPUModuleOp, StringRef, const TargetInfo &) {
    ADD_FAILURE() << "was known";
  };
  EXPECT_EQ(cache.getOrBuild("copy", getKey(1), unexpected), outer);
  EXPECT_EQ(cache.getOrBuild("copy", getKey(199), unexpected), inner);
}

} // namespace
