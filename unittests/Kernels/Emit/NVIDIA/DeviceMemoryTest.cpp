//===- DeviceMemoryTest.cpp - Tests of accesses to global memory ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/DeviceMemory.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class DeviceMemoryTest : public BuilderFixture {
protected:
  std::vector<std::string> getAssembly() {
    std::vector<std::string> texts;
    for (LLVM::InlineAsmOp op : getAll<LLVM::InlineAsmOp>()) {
      EXPECT_TRUE(op.getHasSideEffects());
      texts.push_back(op.getAsmString().str());
    }
    return texts;
  }
};

TEST_F(DeviceMemoryTest, LoadsAtTheScopeOfTheDevice) {
  EXPECT_EQ(createRelaxedLoadWords(b, b.getPointer(0)).getType(),
            b.getWordsType());
  createAcquireLoadWords(b, b.getPointer(0));
  EXPECT_EQ(getAssembly(),
            (std::vector<std::string>{
                "ld.relaxed.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
                "ld.acquire.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];"}));
}

TEST_F(DeviceMemoryTest, AddsFourAtOnce) {
  createGlobalAdd(b, b.getPointer(0), {b.f32(1), b.f32(2), b.f32(3), b.f32(4)});
  EXPECT_EQ(getAssembly(),
            (std::vector<std::string>{
                "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};"}));
}

TEST_F(DeviceMemoryTest, FetchesASectorToTheL2Cache) {
  createSectorPrefetch(b, b.getPointer(0));
  SmallVector<NVVM::PrefetchOp> prefetches = getAll<NVVM::PrefetchOp>();
  ASSERT_EQ(prefetches.size(), 1u);
  EXPECT_EQ(prefetches[0].getCacheLevel(), NVVM::PrefetchCacheLevel::L2);
  EXPECT_FALSE(prefetches[0].getTensormap());
}

} // namespace
