//===- MatmulTilesTest.cpp - Tests of tiles of grouped matmuls ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/MatmulTiles.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <tuple>
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
/// e4m3, fast accumulation, bf16 result. The two gradients with about 1024
/// tokens a group are of 2026-11-22, the others of 2026-11-21.
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
      {gradient(16640, 8192, 5120, 16), tiles({1186, 1203, 1079, 984, 985})},
      {gradient(32768, 2048, 7168, 8), tiles({1310, 1302, 1249, 1183, 1182})},
      {gradient(32768, 8192, 5120, 1), tiles({1326, 1338, 1262, 1316, 1282})},
      {gradient(131072, 2048, 7168, 8), tiles({1354, 1348, 1238, 1248, 1259})},
      {gradient(65536, 1408, 2048, 64), tiles({1116, 1093, 1054, 916, 852})},
  };
}

/// Microseconds of every tile on the same chip (benchmarks/grouped_matmul.py
/// --sweep, 2026-11-21), in the order of `kSweptTiles`. Those of 128x160 and
/// 64x256 in the gradients of the second, fourth, fifth, seventh and eighth
/// shape were measured beside 128x128 on 2026-11-22, when kernels did more
/// beside the multiplications, and are scaled to its time before.
struct SweptCase {
  MatmulWork work;
  std::array<double, 20> microseconds;
};

constexpr std::array<std::tuple<GemmSchedule, int64_t, int64_t>, 20>
    kSweptTiles{{{kPingPong, 128, 64},     {kPingPong, 128, 96},
                 {kPingPong, 128, 128},    {kPingPong, 128, 160},
                 {kPingPong, 64, 64},      {kPingPong, 64, 96},
                 {kPingPong, 64, 128},     {kPingPong, 64, 160},
                 {kPingPong, 64, 192},     {kPingPong, 64, 256},
                 {kCooperative, 128, 64},  {kCooperative, 128, 96},
                 {kCooperative, 128, 128}, {kCooperative, 128, 160},
                 {kCooperative, 128, 192}, {kCooperative, 128, 256},
                 {kCooperative, 256, 64},  {kCooperative, 256, 96},
                 {kCooperative, 256, 128}, {kCooperative, 256, 160}}};

std::vector<SweptCase> getSweptCases() {
  // The contraction of a gradient is padded to 128 in memory.
  auto padded = [](int64_t tokens, int64_t groups) {
    return tokens + groups * 64;
  };
  return {
      {forward(2048, 512, 512, 1),
       {4.8, 5.5, 5.8, 6.8, 4.6, 5.1, 4.7, 5.4, 5.3, 5.8,
        4.6, 5.0, 5.5, 6.0, 6.2, 7.4, 5.5, 6.4, 7.2, 8.1}},
      {gradient(padded(2048, 1), 512, 512, 1),
       {6.0, 7.5, 8.7, 10.1, 5.1,  5.4,  6.0, 6.7,  7.5,  8.9,
        5.9, 7.2, 8.3, 9.6,  10.9, 13.4, 9.3, 11.0, 13.5, 16.1}},
      {forward(4096, 7168, 2048, 32),
       {222.7, 188.9, 173.7, 179.7, 225.9, 180.0, 163.7, 161.9, 157.7, 166.6,
        248.7, 233.7, 212.6, 229.9, 222.4, 211.9, 302.3, 269.8, 247.5, 259.1}},
      {gradient(padded(4096, 32), 7168, 2048, 32),
       {439.7, 379.4, 333.2, 346.2, 598.9, 502.3, 405.6, 432.1, 408.1, 336.4,
        647.4, 523.0, 429.7, 459.8, 390.7, 357.7, 455.7, 419.3, 340.0, 371.6}},
      {forward(8192, 4096, 4096, 8),
       {345.8, 236.1, 231.2, 238.5, 354.9, 332.9, 264.6, 245.1, 256.2, 238.2,
        287.9, 278.6, 257.9, 268.1, 277.1, 268.0, 346.4, 295.1, 263.2, 298.5}},
      {gradient(padded(8192, 8), 4096, 4096, 8),
       {403.8, 294.2, 256.2, 255.5, 466.0, 404.3, 345.8, 310.2, 308.9, 264.2,
        442.7, 362.3, 327.3, 350.5, 328.0, 289.7, 373.4, 310.9, 288.5, 312.5}},
      {forward(8192, 1536, 4096, 128),
       {293.7, 247.2, 232.8, 241.4, 275.0, 239.1, 238.9, 233.3, 227.1, 230.9,
        294.9, 280.2, 260.3, 267.6, 274.6, 246.9, 441.2, 407.9, 367.1, 418.3}},
      {gradient(padded(8192, 128), 1536, 4096, 128),
       {744.8, 673.7, 573.4, 606.3,  1038.2, 853.1, 708.6,
        788.5, 754.1, 576.7, 1118.2, 940.9,  794.1, 853.1,
        781.7, 666.3, 834.1, 739.6,  627.7,  687.4}},
      {forward(16384, 2816, 2048, 16),
       {242.1, 189.3, 154.1, 160.3, 248.5, 243.5, 208.4, 202.2, 200.2, 157.0,
        231.0, 214.8, 200.3, 214.9, 208.5, 202.3, 232.6, 215.3, 193.8, 210.1}},
      {gradient(padded(16384, 16), 2816, 2048, 16),
       {252.7, 201.9, 177.5, 177.2, 297.1, 280.4, 210.8, 207.9, 218.9, 180.0,
        289.4, 261.3, 230.1, 241.4, 228.1, 224.8, 253.3, 228.8, 218.4, 229.2}},
      {forward(16384, 14336, 4096, 8),
       {2572.7, 1695.1, 1494.2, 1514.8, 2481.8, 2188.8, 2043.7,
        1557.0, 1711.0, 1558.8, 2408.5, 1834.1, 1736.0, 1779.9,
        1786.9, 1739.6, 2226.4, 1776.0, 1711.2, 1808.0}},
      {gradient(padded(16384, 8), 14336, 4096, 8),
       {2694.6, 1801.4, 1494.8, 1504.4, 3267.1, 2688.7, 2354.8,
        2102.1, 2131.0, 1682.6, 2333.5, 1962.1, 1885.7, 1913.5,
        1819.4, 1740.4, 2169.9, 1856.9, 1762.9, 1806.3}},
      {forward(49152, 2880, 2880, 32),
       {1178.8, 859.2, 739.5,  644.5,  1370.4, 1154.6, 1175.4,
        931.8,  944.3, 907.9,  1111.9, 845.9,  788.6,  814.0,
        771.3,  824.3, 1037.4, 832.4,  794.7,  822.6}},
      {gradient(padded(49152, 32), 2880, 2880, 32),
       {1148.9, 820.5, 703.1,  668.7,  1322.1, 1133.4, 1104.4,
        864.0,  843.4, 802.8,  1100.3, 918.7,  865.7,  874.1,
        819.4,  854.5, 1107.0, 878.1,  856.6,  838.3}},
      {forward(65536, 768, 2048, 128),
       {295.1, 217.3, 197.6, 196.0, 295.5, 241.5, 255.2, 247.3, 206.2, 196.3,
        303.6, 277.1, 257.6, 263.5, 250.9, 260.9, 315.2, 274.4, 265.1, 294.4}},
      {gradient(padded(65536, 128), 768, 2048, 128),
       {346.0, 310.5, 258.1, 267.3, 430.7, 414.6, 312.3, 320.0, 307.9, 273.0,
        466.4, 422.1, 344.5, 359.5, 346.9, 310.9, 351.2, 332.3, 282.2, 307.3}},
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

TEST(MatmulTilesTest, ChoosesNearlyTheBestOfAllTiles) {
  double logarithms = 0;
  for (const SweptCase &entry : getSweptCases()) {
    SmallVector<MatmulTileCost> tiles = rankMatmulTiles(entry.work, getH200());
    const MatmulSchedule &chosen = chooseMatmulTile(tiles).schedule;
    double best = INFINITY, time = 0;
    for (auto [tile, microseconds] :
         llvm::zip_equal(kSweptTiles, entry.microseconds)) {
      best = std::min(best, microseconds);
      auto [kind, rows, columns] = tile;
      if (kind == chosen.kind && rows == chosen.rows &&
          columns == chosen.columns)
        time = microseconds;
    }
    ASSERT_GT(time, 0) << "the chosen tile was not measured";
    EXPECT_LT(time / best, 1.08)
        << chosen.rows << "x" << chosen.columns << " of " << entry.work.rows
        << "x" << entry.work.columns << "x" << entry.work.contraction;
    logarithms += std::log(time / best);
  }
  EXPECT_LT(std::exp(logarithms / getSweptCases().size()), 1.015);
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
