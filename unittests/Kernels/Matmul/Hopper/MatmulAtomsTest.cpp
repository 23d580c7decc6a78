//===- MatmulAtomsTest.cpp - Tests of swizzles and instructions -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/MatmulAtoms.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// The address bits that a swizzle of the hardware combines: bits 4 and up are
/// XORed with bits 7 and up (PTX ISA, "Swizzling modes").
int64_t swizzleAddress(int64_t address, int64_t rowBytes) {
  int64_t bits = rowBytes / kSwizzleChunkBytes - 1;
  return address ^ (((address >> 7) & bits) << 4);
}

TEST(SwizzleTest, IsTheOneOfTheHardware) {
  for (int64_t rowBytes : {128, 64, 32}) {
    Swizzle swizzle = Swizzle::get(rowBytes);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t chunk = 0; chunk < rowBytes / kSwizzleChunkBytes; ++chunk)
        EXPECT_EQ(swizzle.getOffset(row, chunk),
                  swizzleAddress(row * rowBytes + chunk * kSwizzleChunkBytes,
                                 rowBytes))
            << rowBytes << " bytes, row " << row << ", chunk " << chunk;
  }
}

TEST(SwizzleTest, EveryChunkHasAPlaceOfItsOwn) {
  for (int64_t rowBytes : {128, 64, 32}) {
    Swizzle swizzle = Swizzle::get(rowBytes);
    std::set<int64_t> places;
    int64_t chunks = rowBytes / kSwizzleChunkBytes;
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        places.insert(swizzle.getOffset(row, chunk));
    EXPECT_EQ(places.size(), static_cast<size_t>(64 * chunks));
    EXPECT_EQ(*places.rbegin(), (64 * chunks - 1) * kSwizzleChunkBytes);
  }
}

/// Threads that read one column of 16 bytes from eight rows must not meet in a
/// bank.
TEST(SwizzleTest, EightRowsAreInEightPlaces) {
  Swizzle swizzle = Swizzle::get(128);
  for (int64_t chunk = 0; chunk < 8; ++chunk) {
    std::set<int64_t> places;
    for (int64_t row = 0; row < 8; ++row)
      places.insert(swizzle.getOffset(row, chunk) % 128);
    EXPECT_EQ(places.size(), 8u);
  }
}

TEST(WgmmaDescriptorTest, HoldsItsFields) {
  uint64_t bits = getWgmmaDescriptorBits();
  EXPECT_EQ(bits & kDescriptorAddressMask, 0u);
  // Eight rows of 128 bytes lie between groups of rows.
  EXPECT_EQ(bits >> 32 & 0x3FFF, 1024u >> 4);
  EXPECT_EQ(bits >> 49 & 7, 0u) << "base offset of aligned operands";
  EXPECT_EQ(bits >> 62, 1u) << "128-byte swizzle";
}

/// Every element of a transposed operand is where the descriptor says: the
/// hardware adds offsets of the canonical layout (PTX ISA, in units of 16
/// bytes: columns (8, n) at (1, LBO), contraction (8, k) at (8, SBO)) and
/// swizzles the address; copies put boxes of 64 columns one after the other.
TEST(WgmmaDescriptorTest, FindsTransposedOperands) {
  constexpr int64_t kBoxRows = 64, kBoxBytes = kBoxRows * kSwizzleRowBytes;
  uint64_t bits = getMNMajorDescriptorBits(kBoxBytes);
  EXPECT_EQ(bits & kDescriptorAddressMask, 0u);
  EXPECT_EQ(bits >> 49 & 7, 0u) << "base offset of aligned operands";
  EXPECT_EQ(bits >> 62, 1u) << "128-byte swizzle";
  int64_t leading = bits >> 16 & 0x3FFF, stride = bits >> 32 & 0x3FFF;
  Swizzle swizzle = Swizzle::get(kSwizzleRowBytes);
  for (int64_t column = 0; column < 256; column += 8)
    for (int64_t k = 0; k < kBoxRows; ++k) {
      int64_t step = k / 16, row = k % 16, chunk = column / 8;
      int64_t units =
          chunk % 8 + chunk / 8 * leading + row % 8 * 8 + row / 8 * stride;
      int64_t start = step * 16 * kSwizzleRowBytes;
      EXPECT_EQ(
          swizzleAddress(start + units * kDescriptorUnit, kSwizzleRowBytes),
          chunk / 8 * kBoxBytes + swizzle.getOffset(k, chunk % 8))
          << "column " << column << ", contraction " << k;
    }
}

class WgmmaShapeTest : public ::testing::Test {
protected:
  MLIRContext context;
  Type e4m3 = Float8E4M3FNType::get(&context);
  Type e5m2 = Float8E5M2Type::get(&context);
  Type bf16 = BFloat16Type::get(&context);
};

TEST_F(WgmmaShapeTest, Mnemonics) {
  EXPECT_EQ((WgmmaShape{128, e4m3, e4m3}.getMnemonic()),
            "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3");
  EXPECT_EQ((WgmmaShape{160, e5m2, e4m3}.getMnemonic()),
            "wgmma.mma_async.sync.aligned.m64n160k32.f32.e5m2.e4m3");
  EXPECT_EQ((WgmmaShape{64, bf16, bf16}.getMnemonic()),
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16");
}

TEST_F(WgmmaShapeTest, TiesAccumulators) {
  WgmmaShape shape{16, e4m3, e4m3};
  EXPECT_EQ(shape.getNumAccumulators(), 8);
  EXPECT_EQ(shape.getConstraints(),
            "=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,l,l,r");
  // Operands 0 to 7 are results, 8 to 15 tied to them, then descriptors.
  EXPECT_EQ(shape.getAssembly(),
            "{\n.reg .pred p;\nsetp.ne.b32 p, $18, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
            "{$0, $1, $2, $3, $4, $5, $6, $7}, $16, $17, p, 1, 1;\n}\n");
}

TEST_F(WgmmaShapeTest, BF16SaysThatNothingIsTransposed) {
  EXPECT_NE((WgmmaShape{16, bf16, bf16}.getAssembly().find("p, 1, 1, 0, 0;")),
            std::string::npos);
}

TEST_F(WgmmaShapeTest, BF16SaysThatBIsTransposed) {
  EXPECT_NE((WgmmaShape{64, bf16, bf16, /*mnMajorA=*/false, /*mnMajorB=*/true}
                 .getAssembly()
                 .find("p, 1, 1, 0, 1;")),
            std::string::npos);
}

} // namespace
