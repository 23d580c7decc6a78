//===- OccupancyTest.cpp - Tests of how many blocks are resident ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/Occupancy.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

int64_t count(llvm::StringRef chip, int64_t threads, int64_t registers,
              int64_t sharedBytes = 0) {
  return countResidentBlocks(threads, registers, sharedBytes,
                             *lookupTarget(chip));
}

/// 102 registers are allocated as 104, so a SIMD with 512 registers holds four
/// waves, and four SIMDs hold three blocks of five waves. All registers
/// together would suffice for a fourth block.
TEST(OccupancyTest, EachPartitionHasRegistersOfItsOwn) {
  EXPECT_EQ(count("gfx950", 320, 102), 3);
  EXPECT_EQ(count("gfx942", 256, 128), 4);
  EXPECT_EQ(count("gfx942", 256, 129), 3);
  // Each of four schedulers has a quarter of 65536 registers, which is 5 warps
  // of 96.
  EXPECT_EQ(count("sm_90a", 128, 96), 5);
  EXPECT_EQ(count("sm_90a", 96, 96), 6);
}

TEST(OccupancyTest, WhatDoesNotFit) {
  EXPECT_EQ(count("sm_90a", 2048, 16), 0);
  EXPECT_EQ(count("sm_90a", 100, 16), 0);
  EXPECT_EQ(count("sm_90a", 128, 256), 0);
  EXPECT_EQ(count("sm_90a", 128, 16, 1 << 20), 0);
}

TEST(OccupancyTest, ThreadsAndSharedMemoryAreLimitsToo) {
  // The kernel's number of registers is unknown.
  EXPECT_EQ(count("gfx942", 256, 0), 8);
  EXPECT_EQ(count("sm_90a", 128, 16), 16);
  // A block of 113 KiB takes 114 KiB.
  EXPECT_EQ(count("sm_90a", 128, 16, 113 << 10), 2);
  EXPECT_EQ(count("gfx942", 256, 16, 33 << 10), 1);
}

} // namespace
