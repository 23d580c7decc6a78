//===- WgmmaTest.cpp - Tests of descriptors that kernels build ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors fold to constants if addresses are constants. The kernel's
// arithmetic can therefore be compared with expected values.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Wgmma.h"

#include "KernelFixture.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class WgmmaTest : public KernelFixture {
protected:
  WgmmaTest() {
    KernelSignature signature;
    signature.hasBlockCount = false;
    signature.threads = 128;
    b = std::make_unique<KernelBuilder>(module->getLoc(), kernels, "k",
                                        signature, target);
  }

  static uint64_t valueOf(Value value) {
    APInt constant;
    EXPECT_TRUE(matchPattern(value, m_ConstantInt(&constant)));
    return constant.getZExtValue();
  }

  std::unique_ptr<KernelBuilder> b;
};

TEST_F(WgmmaTest, HoldsTheAddressInWorkTiles) {
  uint64_t descriptor = valueOf(createWgmmaDescriptor(*b, b->i32(0x2C400)));
  EXPECT_EQ(descriptor & kDescriptorAddressMask, 0x2C400u >> 4);
  EXPECT_EQ(descriptor & ~kDescriptorAddressMask, getWgmmaDescriptorBits());
}

TEST_F(WgmmaTest, AddsUp) {
  for (int64_t offset : {32, 96, 8192, 16384}) {
    Value first = createWgmmaDescriptor(*b, b->i32(0x400));
    EXPECT_EQ(valueOf(advanceWgmmaDescriptor(*b, first, offset)),
              valueOf(createWgmmaDescriptor(*b, b->i32(0x400 + offset))));
  }
}

} // namespace
