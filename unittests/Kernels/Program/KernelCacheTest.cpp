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

} // namespace
