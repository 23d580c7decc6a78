//===- MatmulWavesTest.cpp - Waves of M-grouped matmul tiles --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"

#include "Model/HostSizes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

TEST(MatmulWavesTest, TheHostCountsAsTheCompilerDoes) {
  HostSizes sizes;
  for (int i = 0; i < 1000; ++i) {
    HopperMatmulConfig config;
    config.rows = 64 << (i % 3);
    config.columns = 32 * sizes.draw(8);
    int64_t rows = sizes.draw(1 << 20), columns = sizes.draw(1 << 15);
    int64_t groups = sizes.draw(300), multiprocessors = sizes.draw(200);
    HostSize waves = countDoubledWaves(
        config, sizes.getKnown(rows), sizes.getKnown(columns),
        sizes.getKnown(groups), sizes.getKnown(multiprocessors));
    EXPECT_EQ(waves.getKnown(),
              countDoubledWaves(config, rows, columns, groups, multiprocessors))
        << rows << " rows, " << columns << " columns, " << groups << " groups";
  }
  EXPECT_EQ(sizes.countOperations(), 0);
}

TEST(MatmulWavesTest, OneGroupHasOneCase) {
  HopperMatmulConfig config;
  config.rows = config.columns = 128;
  // 9 tiles along the rows, 4 along the columns.
  EXPECT_EQ(countDoubledWaves<int64_t>(config, 1025, 512, 1, 12), 2 * 3);
  // With several groups, the last tiles are assumed to be half full.
  EXPECT_EQ(countDoubledWaves<int64_t>(config, 1024, 128, 12, 1), 13 + 15);
}

TEST(MatmulWavesTest, UnknownGroupsHaveHalfATileEach) {
  HopperMatmulConfig config;
  config.rows = config.columns = 128;
  HostSizes sizes;
  HostSize waves =
      countDoubledWaves(config, sizes.getKnown(1024), sizes.getKnown(128),
                        sizes.createUnknown(), sizes.getKnown(132));
  EXPECT_EQ(waves.getKnown(), std::nullopt);
}
