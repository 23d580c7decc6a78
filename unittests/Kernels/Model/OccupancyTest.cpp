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

/// 102 registers take the room of 104, so that a SIMD holds four waves of 512
/// registers, and four SIMDs three blocks of five waves. All registers together
/// would be enough for a fourth.
TEST(OccupancyTest, EachPartitionHasRegistersOfItsOwn) {
  EXPECT_EQ(count("gfx950", 320, 102), 3);
  EXPECT_EQ(count("gfx942", 256, 128), 4);
  EXPECT_EQ(count("gfx942", 256, 129), 3);
  // 65536 registers, of which a scheduler has a quarter: 21 warps of 96.
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
  // A kernel without registers, as nobody says how many it has.
  EXPECT_EQ(count("gfx942", 256, 0), 8);
  EXPECT_EQ(count("sm_90a", 128, 16), 16);
  // A block of 113 KiB takes 114.
  EXPECT_EQ(count("sm_90a", 128, 16, 113 << 10), 2);
  EXPECT_EQ(count("gfx942", 256, 16, 33 << 10), 1);
}

} // namespace
