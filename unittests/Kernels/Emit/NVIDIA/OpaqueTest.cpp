//===- OpaqueTest.cpp - Tests of values that LLVM does not look through ---===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/Opaque.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class OpaqueTest : public BuilderFixture {
protected:
  void expectAssemblies(size_t count) {
    SmallVector<LLVM::InlineAsmOp> all = getAll<LLVM::InlineAsmOp>();
    EXPECT_EQ(all.size(), count);
    for (LLVM::InlineAsmOp op : all) {
      EXPECT_TRUE(op.getHasSideEffects());
      EXPECT_EQ(op.getAsmString(), "");
      EXPECT_EQ(op.getConstraints(), "=r,0");
    }
  }
};

TEST_F(OpaqueTest, AWordPassesThroughAnAssembly) {
  EXPECT_TRUE(createOpaque(b, b.i32(1)).getType().isInteger(32));
  expectAssemblies(1);
}

TEST_F(OpaqueTest, EachWordOfAVectorDoes) {
  EXPECT_EQ(createOpaque(b, b.zeroWords()).getType(), b.getWordsType());
  expectAssemblies(4);
}

} // namespace
