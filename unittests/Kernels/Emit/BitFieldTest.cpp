//===- BitFieldTest.cpp - Tests of numbers and flags in one word ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/BitField.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class BitFieldTest : public BuilderFixture {};

constexpr BitField kFlag{0}, kNumber{1, 3}, kOther{4}, kRest{16, 16};

TEST_F(BitFieldTest, Masks) {
  EXPECT_EQ(kFlag.getMask(), 1);
  EXPECT_EQ(kNumber.getMask(), 14);
  EXPECT_EQ(kOther.getMask(), 16);
  EXPECT_EQ(kRest.getMask(), 0xFFFF0000);
}

TEST_F(BitFieldTest, GetsWhatWasPlaced) {
  Value word =
      b.bitOr(b.bitOr(kFlag.place(b, b.i32(1)), kNumber.place(b, b.i32(5))),
              kRest.place(b, b.i32(0x8001)));
  EXPECT_EQ(valueOf(kFlag.get(b, word)), 1);
  EXPECT_EQ(valueOf(kNumber.get(b, word)), 5);
  EXPECT_EQ(valueOf(kOther.get(b, word)), 0);
  EXPECT_EQ(valueOf(kRest.get(b, word)), 0x8001);
}

TEST_F(BitFieldTest, Flags) {
  Value word =
      b.bitOr(kFlag.setIf(b, b.i1(false)), kOther.setIf(b, b.i1(true)));
  EXPECT_EQ(valueOf(word), 16);
  EXPECT_NE(valueOf(kOther.isSet(b, word)), 0);
  EXPECT_EQ(valueOf(kFlag.isSet(b, word)), 0);
  EXPECT_EQ(valueOf(kNumber.isSet(b, word)), 0);
  EXPECT_NE(valueOf(kNumber.isSet(b, b.i32(8))), 0);
}

} // namespace
