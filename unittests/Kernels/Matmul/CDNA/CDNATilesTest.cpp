//===- CDNATilesTest.cpp - Tests of tiles of CDNA's matmul ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/CDNATiles.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getMI300X() { return *lookupTarget("gfx942"); }
const TargetInfo &getMI355X() { return *lookupTarget("gfx950"); }

MatmulWork mGrouped(int64_t rows, int64_t columns, int64_t contraction,
                    int64_t groups) {
  MatmulWork work;
  work.rows = rows;
  work.columns = columns;
  work.contraction = contraction;
  work.groups = groups;
  return work;
}

CDNAMatmulConfig choose(const MatmulWork &work, const TargetInfo &target) {
  return chooseCandidate(rankMfmaTiles(work, target)).config;
}

double getTeraflops(const MatmulWork &work, const TargetInfo &target) {
  const Cost cost = chooseCandidate(rankMfmaTiles(work, target)).cost;
  return 2.0 * work.rows * work.columns * work.contraction / cost.time;
}

TEST(CDNATiles, KernelsAreForChipsWithTheInstruction) {
  for (const TargetInfo &target : knownTargets()) {
    bool isCDNA = &target == &getMI300X() || &target == &getMI355X();
    for (MatrixElement a : {MatrixElement::E4M3, MatrixElement::E5M2})
      EXPECT_EQ(hasMfmaKernel(a, MatrixElement::E4M3, target), isCDNA)
          << target.chip.str();
    EXPECT_EQ(hasMfmaKernel(MatrixElement::BF16, MatrixElement::BF16, target),
              isCDNA);
    EXPECT_FALSE(
        hasMfmaKernel(MatrixElement::BF16, MatrixElement::E4M3, target));
  }
}

TEST(CDNATiles, AllThreadsBringWholeRows) {
  for (const TargetInfo *target : {&getMI300X(), &getMI355X()})
    for (const MfmaTileCost &tile :
         rankMfmaTiles(mGrouped(16384, 4096, 4096, 8), *target)) {
      const CDNAMatmulConfig &config = tile.config;
      EXPECT_EQ(config.getRounds(true) * config.getRowsPerRound(),
                config.getHalf(true));
      EXPECT_EQ(config.getRounds(false) * config.getRowsPerRound(),
                config.getHalf(false));
      EXPECT_LE(config.getSharedBytes(), target->sharedMemoryPerBlock);
      EXPECT_LE(config.getThreads(), target->maxThreadsPerBlock);
    }
}

TEST(CDNATiles, SharedMemoryHoldsTwoStages) {
  EXPECT_EQ(getCDNAMatmulConfig(256, 256, getMI300X()).getSharedBytes(), 65536);
  EXPECT_EQ(getCDNAMatmulConfig(256, 256, getMI355X()).getSharedBytes(),
            131072);
  EXPECT_EQ(getCDNAMatmulConfig(128, 128, getMI300X()).getSharedBytes(), 32768);
}

/// In K-grouped matmuls with block scales, rows pass through registers and are
/// shifted, with an additional word per 16 bytes.
TEST(CDNATiles, GroupsOfBlocksAreShifted) {
  MatmulWork work = mGrouped(2048, 7168, 131072, 8);
  work.groupedDim = GroupedDim::K;
  work.hasBlockScales = true;
  SmallVector<MfmaTileCost> tiles = rankMfmaTiles(work, getMI355X());
  ASSERT_EQ(tiles.size(), 2u);
  for (const MfmaTileCost &tile : tiles) {
    EXPECT_TRUE(tile.config.shiftsLines);
    EXPECT_FALSE(tile.config.loadsToShared);
    EXPECT_LT(tile.config.rows, 256);
    EXPECT_EQ(tile.config.getLoadedBytes() * 4,
              tile.config.getStageBytes() * 5);
  }
  EXPECT_EQ(chooseCandidate(tiles).config.columns, 256);

  work.groupedDim = GroupedDim::M;
  for (const MfmaTileCost &tile : rankMfmaTiles(work, getMI355X())) {
    EXPECT_FALSE(tile.config.shiftsLines);
    EXPECT_EQ(tile.config.getLoadedBytes(), tile.config.getStageBytes());
  }
}

/// MN-major operands are transposed on their way to shared memory, which is not
/// completely hidden. Masks at both ends need registers, too.
TEST(CDNATiles, TransposedOperandsTakeTimeAndRegisters) {
  MatmulWork work = mGrouped(2048, 7168, 32768, 8);
  work.groupedDim = GroupedDim::K;
  work.a = work.b = MatrixElement::BF16;
  work.elementBytes = 2;
  MatmulWork one = work, both = work;
  one.mnMajorB = both.mnMajorA = both.mnMajorB = true;
  for (const TargetInfo *target : {&getMI300X(), &getMI355X()}) {
    auto getTime = [&](const MatmulWork &of) {
      return rankMfmaTiles(of, *target).back().tileTime;
    };
    EXPECT_LT(getTime(work), getTime(one));
    EXPECT_LT(getTime(one), getTime(both));
    EXPECT_LT(getTime(both), getTime(work) * 1.05);
    EXPECT_EQ(choose(both, *target).rows, 256);
  }
  EXPECT_EQ(choose(one, getMI300X()).rows, 256);
  EXPECT_EQ(choose(one, getMI355X()).rows, 128);
}

/// A tile with few rows has too little to load for 512 threads of 16 bytes
/// each.
TEST(CDNATiles, WideTilesAreForLongStages) {
  auto hasWide = [](const TargetInfo &target) {
    return llvm::any_of(rankMfmaTiles(mGrouped(16384, 4096, 4096, 8), target),
                        [](const MfmaTileCost &tile) {
                          return tile.config.rows < tile.config.columns;
                        });
  };
  EXPECT_FALSE(hasWide(getMI300X()));
  EXPECT_TRUE(hasWide(getMI355X()));
}

TEST(CDNATiles, LargeMatmulsHaveLargeTiles) {
  for (const TargetInfo *target : {&getMI300X(), &getMI355X()})
    EXPECT_EQ(choose(mGrouped(65536, 8192, 4096, 8), *target).rows, 256);
}

TEST(CDNATiles, SmallGroupsHaveSmallTiles) {
  for (const TargetInfo *target : {&getMI300X(), &getMI355X()})
    EXPECT_LT(choose(mGrouped(4096, 1408, 2048, 64), *target).rows, 256);
}

/// Predictions stay below the vendor's dense matmuls, and within an order of
/// magnitude of them.
TEST(CDNATiles, PredictionsAreBoundedByDenseMatmuls) {
  MatmulWork work = mGrouped(65536, 8192, 4096, 8);
  EXPECT_LT(getTeraflops(work, getMI300X()), 1273);
  EXPECT_GT(getTeraflops(work, getMI300X()), 900);
  EXPECT_LT(getTeraflops(work, getMI355X()), 3233);
  EXPECT_GT(getTeraflops(work, getMI355X()), 2000);
}

/// Few rows of many experts are bound by memory.
TEST(CDNATiles, WeightsBoundFewRows) {
  MatmulWork work = mGrouped(256, 4096, 4096, 64);
  MfmaTileCost tile = chooseCandidate(rankMfmaTiles(work, getMI300X()));
  EXPECT_GE(tile.cost.time, tile.trafficTime);
  EXPECT_GT(tile.trafficTime, 200000000); // 1 GiB at 4.7 TB/s, in ps
}

} // namespace
