//===- MatmulAtomsTest.cpp - Tests of swizzles and instructions -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Wgmma.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Returns the hardware's swizzled address: bits 4 and up are XORed with bits 7
/// and up (PTX ISA, "Swizzling modes").
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

/// Threads that read a 16-byte column of eight rows must use different banks.
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
  // Groups of eight rows are eight rows of 128 bytes apart.
  EXPECT_EQ(bits >> 32 & 0x3FFF, 1024u >> 4);
  EXPECT_EQ(bits >> 49 & 7, 0u) << "base offset of aligned operands";
  EXPECT_EQ(bits >> 62, 1u) << "128-byte swizzle";
}

/// Checks the address of every element of a transposed operand. The hardware
/// adds offsets of the canonical layout (PTX ISA, in units of 16 bytes: columns
/// (8, n) at (1, LBO), contraction (8, k) at (8, SBO)) and swizzles the
/// address. Copies store boxes of 64 columns one after the other.
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

} // namespace
