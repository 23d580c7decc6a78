//===- MatmulTilesTest.cpp - Tests of tiles of grouped matmuls ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/MatmulTiles.h"

#include "gtest/gtest.h"

#include <cmath>
#include <vector>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getH200() { return *lookupTarget("sm_90a"); }

MatmulWork forward(int64_t rows, int64_t columns, int64_t contraction,
                   int64_t groups) {
  MatmulWork work;
  work.rows = rows;
  work.columns = columns;
  work.contraction = contraction;
  work.groups = groups;
  return work;
}
/// Sizes named as those of the forward matmul: the result of a group is
/// [columns, contraction].
MatmulWork gradient(int64_t rows, int64_t columns, int64_t contraction,
                    int64_t groups) {
  MatmulWork work = forward(columns, contraction, rows, groups);
  work.forward = false;
  return work;
}

/// TFLOP/s of a tile on one NVIDIA H200 under sustained load: jagged groups,
/// e4m3, fast accumulation, bf16 result.
struct MeasuredTile {
  GemmSchedule kind;
  int64_t rows, columns;
  double teraflops;
};
struct MeasuredCase {
  MatmulWork work;
  std::vector<MeasuredTile> tiles;
};

constexpr GemmSchedule kPingPong = GemmSchedule::PingPong;
constexpr GemmSchedule kCooperative = GemmSchedule::Cooperative;

std::vector<MeasuredCase> getMeasuredCases() {
  auto tiles = [](std::array<double, 5> values) {
    return std::vector<MeasuredTile>{{kPingPong, 128, 128, values[0]},
                                     {kPingPong, 128, 160, values[1]},
                                     {kPingPong, 64, 256, values[2]},
                                     {kCooperative, 128, 256, values[3]},
                                     {kCooperative, 256, 128, values[4]}};
  };
  return {
      {forward(16640, 8192, 5120, 16), tiles({1274, 1282, 1210, 1192, 1151})},
      {forward(32768, 2048, 7168, 8), tiles({1312, 1322, 1255, 1254, 1252})},
      {forward(32768, 8192, 5120, 1), tiles({1354, 1344, 1251, 1241, 1240})},
      {forward(131072, 2048, 7168, 8), tiles({1348, 1349, 1271, 1261, 1267})},
      {forward(65536, 1408, 2048, 64), tiles({1253, 1260, 988, 996, 998})},
      {gradient(16640, 8192, 5120, 16), tiles({1169, 1194, 1082, 1033, 970})},
      {gradient(32768, 2048, 7168, 8), tiles({1310, 1302, 1249, 1183, 1182})},
      {gradient(32768, 8192, 5120, 1), tiles({1326, 1338, 1262, 1316, 1282})},
      {gradient(131072, 2048, 7168, 8), tiles({1354, 1348, 1238, 1248, 1259})},
      {gradient(65536, 1408, 2048, 64), tiles({1158, 1115, 1057, 985, 892})},
  };
}

const MatmulTileCost *findTile(ArrayRef<MatmulTileCost> tiles,
                               const MeasuredTile &measured) {
  for (const MatmulTileCost &tile : tiles)
    if (tile.schedule.kind == measured.kind &&
        tile.schedule.rows == measured.rows &&
        tile.schedule.columns == measured.columns)
      return &tile;
  return nullptr;
}

TEST(MatmulTilesTest, MeasuredTilesAreCandidates) {
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<MatmulTileCost> tiles = rankMatmulTiles(entry.work, getH200());
    for (const MeasuredTile &measured : entry.tiles)
      EXPECT_NE(findTile(tiles, measured), nullptr)
          << stringifyGemmSchedule(measured.kind).str() << " " << measured.rows
          << "x" << measured.columns;
  }
}

TEST(MatmulTilesTest, PredictedTimesAreNearMeasuredOnes) {
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<MatmulTileCost> tiles = rankMatmulTiles(entry.work, getH200());
    double flops =
        2.0 * entry.work.rows * entry.work.columns * entry.work.contraction;
    for (const MeasuredTile &measured : entry.tiles) {
      double predicted = flops / findTile(tiles, measured)->cost.time;
      EXPECT_GT(predicted / measured.teraflops, 0.87)
          << predicted << " for " << measured.teraflops << " TFLOP/s, "
          << measured.rows << "x" << measured.columns << " of "
          << entry.work.rows << "x" << entry.work.columns;
      EXPECT_LT(predicted / measured.teraflops, 1.16)
          << predicted << " for " << measured.teraflops << " TFLOP/s, "
          << measured.rows << "x" << measured.columns << " of "
          << entry.work.rows << "x" << entry.work.columns;
    }
  }
}

TEST(MatmulTilesTest, ChoosesNearlyTheBestMeasuredTile) {
  double logarithms = 0;
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<MatmulTileCost> tiles = rankMatmulTiles(entry.work, getH200());
    const MeasuredTile *best = nullptr, *chosen = nullptr;
    for (const MeasuredTile &measured : entry.tiles) {
      if (!best || measured.teraflops > best->teraflops)
        best = &measured;
      if (!chosen ||
          findTile(tiles, measured)->cost < findTile(tiles, *chosen)->cost)
        chosen = &measured;
    }
    EXPECT_GT(chosen->teraflops, 0.95 * best->teraflops);
    logarithms += std::log(best->teraflops / chosen->teraflops);
  }
  EXPECT_LT(std::exp(logarithms / getMeasuredCases().size()), 1.02);
}

TEST(MatmulTilesTest, CandidatesFitTheTarget) {
  for (bool promoted : {false, true})
    for (int64_t resultBytes : {2, 4}) {
      MatmulWork work = forward(4096, 4096, 4096, 8);
      work.promoted = promoted;
      work.resultBytes = resultBytes;
      for (const MatmulTileCost &tile : rankMatmulTiles(work, getH200())) {
        const MatmulSchedule &schedule = tile.schedule;
        MatmulMemory memory = MatmulMemory::get(schedule);
        EXPECT_LE(memory.total, getH200().sharedMemoryPerBlock);
        EXPECT_GE(schedule.stages, 2);
        // Every operand and box begins where a swizzle may begin.
        EXPECT_EQ(schedule.columns * 128 % 1024, 0);
        EXPECT_EQ(memory.b % 1024, 0);
        EXPECT_EQ(memory.staging % 1024, 0);
        EXPECT_EQ(memory.barriers % 8, 0);
        if (schedule.kind != kCooperative)
          EXPECT_EQ(schedule.kind == GemmSchedule::Independent, promoted);
      }
    }
}

TEST(MatmulTilesTest, ChoiceDoesNotDependOnTheRun) {
  MatmulWork work = forward(ShapedType::kDynamic, 2048, 7168, 8);
  SmallVector<MatmulTileCost> first = rankMatmulTiles(work, getH200());
  SmallVector<MatmulTileCost> second = rankMatmulTiles(work, getH200());
  EXPECT_EQ(chooseMatmulTile(first).cost, chooseMatmulTile(second).cost);
}

TEST(MatmulTilesTest, SmallWorkIsBoundByOneWave) {
  SmallVector<MatmulTileCost> tiles =
      rankMatmulTiles(forward(128, 128, 128, 1), getH200());
  EXPECT_EQ(chooseMatmulTile(tiles).waves, 1);
}

} // namespace
