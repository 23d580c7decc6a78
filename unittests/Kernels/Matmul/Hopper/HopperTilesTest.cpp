//===- HopperTilesTest.cpp - Tests of tiles of Hopper's matmul ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <tuple>
#include <vector>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getH200() { return *lookupTarget("sm_90a"); }

MatmulWork mGrouped(int64_t rows, int64_t columns, int64_t contraction,
                    int64_t groups) {
  MatmulWork work;
  work.rows = rows;
  work.columns = columns;
  work.contraction = contraction;
  work.groups = groups;
  return work;
}
/// Sizes have the names of the M-grouped matmul: the result of a group is
/// [columns, contraction].
MatmulWork gradient(int64_t rows, int64_t columns, int64_t contraction,
                    int64_t groups) {
  MatmulWork work = mGrouped(columns, contraction, rows, groups);
  work.groupedDim = GroupedDim::K;
  return work;
}

TEST(MatmulWorkTest, UnknownTokensAreManyAndUnknownWidthsAreNot) {
  constexpr int64_t kUnknown = ShapedType::kDynamic;
  MatmulWork rows = withNominalSizes(mGrouped(kUnknown, kUnknown, 64, 1));
  EXPECT_EQ(rows.rows, 16384);
  EXPECT_EQ(rows.columns, 4096);
  // Each group is assumed to have some tokens.
  EXPECT_EQ(withNominalSizes(gradient(kUnknown, 64, 64, 32)).contraction,
            32768);
  // A dense wgrad is an M-grouped matmul that contracts tokens.
  MatmulWork dense = mGrouped(kUnknown, 64, kUnknown, 1);
  dense.contractsTokens = true;
  dense = withNominalSizes(dense);
  EXPECT_EQ(dense.contraction, 16384);
  EXPECT_EQ(dense.rows, 4096);
}

/// TFLOP/s of a tile on one NVIDIA H200 under sustained load: jagged groups,
/// e4m3, fast accumulation, bf16 result. The two gradients with about 1024
/// tokens a group are of 2026-11-22, the others of 2026-11-21.
struct MeasuredTile {
  WgmmaSchedule kind;
  int64_t rows, columns;
  double teraflops;
};
struct MeasuredCase {
  MatmulWork work;
  std::vector<MeasuredTile> tiles;
};

constexpr WgmmaSchedule kPingPong = WgmmaSchedule::PingPong;
constexpr WgmmaSchedule kCooperative = WgmmaSchedule::Cooperative;

std::vector<MeasuredCase> getMeasuredCases() {
  auto tiles = [](std::array<double, 5> values) {
    return std::vector<MeasuredTile>{{kPingPong, 128, 128, values[0]},
                                     {kPingPong, 128, 160, values[1]},
                                     {kPingPong, 64, 256, values[2]},
                                     {kCooperative, 128, 256, values[3]},
                                     {kCooperative, 256, 128, values[4]}};
  };
  return {
      {mGrouped(16640, 8192, 5120, 16), tiles({1274, 1282, 1210, 1192, 1151})},
      {mGrouped(32768, 2048, 7168, 8), tiles({1312, 1322, 1255, 1254, 1252})},
      {mGrouped(32768, 8192, 5120, 1), tiles({1354, 1344, 1251, 1241, 1240})},
      {mGrouped(131072, 2048, 7168, 8), tiles({1348, 1349, 1271, 1261, 1267})},
      {mGrouped(65536, 1408, 2048, 64), tiles({1253, 1260, 988, 996, 998})},
      {gradient(16640, 8192, 5120, 16), tiles({1186, 1203, 1079, 984, 985})},
      {gradient(32768, 2048, 7168, 8), tiles({1310, 1302, 1249, 1183, 1182})},
      {gradient(32768, 8192, 5120, 1), tiles({1326, 1338, 1262, 1316, 1282})},
      {gradient(131072, 2048, 7168, 8), tiles({1354, 1348, 1238, 1248, 1259})},
      {gradient(65536, 1408, 2048, 64), tiles({1116, 1093, 1054, 916, 852})},
  };
}

/// Microseconds of every tile on the same chip, 2026-11-22, in the order of
/// `kSweptTiles`. `grouped_matmul.py --sweep` measures them for these shapes.
struct SweptCase {
  MatmulWork work;
  std::array<double, 20> microseconds;
};

constexpr std::array<std::tuple<WgmmaSchedule, int64_t, int64_t>, 20>
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
  // K of a gradient is padded to multiples of 128 in memory.
  auto padded = [](int64_t tokens, int64_t groups) {
    return llvm::alignTo(tokens + groups * 127, 128);
  };
  return {
      {mGrouped(16640, 8192, 5120, 16),
       {1864.8, 1287.5, 1164.9, 1105.3, 1998.0, 1798.1, 1591.8,
        1275.1, 1422.4, 1168.0, 1832.2, 1302.6, 1187.0, 1221.7,
        1224.5, 1166.6, 1698.7, 1312.1, 1253.0, 1305.7}},
      {gradient(padded(16640, 16), 8192, 5120, 16),
       {1983.1, 1466.5, 1156.9, 1109.8, 2382.4, 2054.2, 1788.2,
        1556.7, 1530.9, 1192.3, 1971.8, 1622.8, 1419.7, 1459.0,
        1436.2, 1380.1, 1729.5, 1519.1, 1433.1, 1439.9}},
      {mGrouped(32768, 2048, 7168, 8),
       {1258.2, 943.5,  734.8,  748.6,  1455.8, 1358.7, 1109.5,
        1081.9, 1081.5, 779.0,  1222.2, 972.4,  810.4,  783.2,
        789.1,  787.9,  1116.0, 808.4,  779.1,  824.0}},
      {gradient(padded(32768, 8), 2048, 7168, 8),
       {1265.4, 875.7, 772.3,  749.7,  1334.8, 1204.6, 1046.8,
        814.5,  850.7, 822.4,  1262.3, 881.3,  786.4,  873.2,
        830.5,  820.2, 1108.8, 813.1,  845.9,  873.3}},
      {mGrouped(65536, 1408, 2048, 64),
       {505.5, 351.0, 314.2, 316.1, 523.8, 508.8, 456.7, 411.9, 472.3, 424.8,
        459.9, 397.0, 364.0, 371.7, 413.1, 394.5, 461.8, 404.7, 447.3, 393.6}},
      {gradient(padded(65536, 64), 1408, 2048, 64),
       {519.1, 432.2, 322.1, 326.8, 574.7, 566.5, 414.1, 408.5, 439.4, 351.1,
        507.4, 498.3, 422.2, 432.7, 454.0, 401.3, 582.8, 465.2, 441.7, 452.2}},
      {mGrouped(4096, 7168, 2048, 32),
       {194.6, 169.9, 165.4, 167.6, 229.1, 176.9, 161.8, 161.8, 153.9, 162.3,
        203.5, 194.8, 184.5, 192.0, 181.6, 179.6, 303.6, 255.0, 252.5, 247.8}},
      {gradient(padded(4096, 32), 7168, 2048, 32),
       {351.3, 338.7, 293.3, 292.1, 479.3, 432.5, 359.9, 393.0, 340.3, 285.6,
        497.7, 460.0, 342.8, 401.8, 318.1, 289.1, 382.3, 379.8, 283.5, 311.0}},
      {mGrouped(8192, 4096, 4096, 8),
       {332.7, 243.9, 240.0, 250.3, 368.9, 325.1, 278.7, 241.4, 256.2, 241.0,
        308.1, 270.6, 262.7, 270.0, 263.0, 260.6, 383.0, 311.5, 296.5, 295.7}},
      {gradient(padded(8192, 8), 4096, 4096, 8),
       {396.6, 278.3, 254.8, 265.4, 448.2, 389.3, 331.0, 311.5, 311.8, 269.3,
        424.7, 321.4, 291.9, 317.4, 294.0, 280.5, 350.7, 309.2, 279.1, 309.8}},
      {mGrouped(16384, 2816, 2048, 16),
       {231.8, 170.8, 161.9, 168.4, 250.3, 219.2, 200.0, 185.2, 178.4, 162.2,
        211.2, 196.6, 181.0, 202.5, 193.4, 198.6, 232.5, 213.7, 203.4, 198.6}},
      {gradient(padded(16384, 16), 2816, 2048, 16),
       {253.3, 197.2, 176.4, 194.3, 287.6, 277.7, 203.3, 208.7, 197.6, 182.5,
        265.9, 231.2, 207.5, 229.2, 209.5, 207.3, 241.8, 224.1, 210.5, 233.5}},
      {mGrouped(49152, 2880, 2880, 32),
       {1188.9, 880.7, 780.4,  673.9,  1467.7, 1179.6, 1206.1,
        987.1,  975.6, 982.0,  1172.9, 886.7,  828.9,  763.3,
        746.8,  776.7, 1100.6, 806.5,  797.2,  832.0}},
      {gradient(padded(49152, 32), 2880, 2880, 32),
       {1208.1, 867.3, 749.6,  638.6,  1371.0, 1114.9, 1115.0,
        877.2,  888.9, 802.8,  1226.6, 869.0,  848.6,  808.7,
        799.4,  813.1, 1194.3, 863.3,  856.4,  821.0}},
      {mGrouped(65536, 768, 2048, 128),
       {279.9, 212.2, 191.1, 211.0, 316.4, 249.2, 213.4, 228.5, 199.2, 210.4,
        248.0, 238.8, 228.8, 237.5, 230.9, 229.8, 294.7, 257.3, 246.4, 275.7}},
      {gradient(padded(65536, 128), 768, 2048, 128),
       {301.7, 269.3, 231.4, 234.8, 403.8, 326.1, 273.1, 281.7, 256.2, 250.6,
        356.7, 346.0, 286.9, 306.9, 285.3, 265.9, 323.1, 313.9, 265.3, 293.2}},
  };
}

const WgmmaTileCost *findTile(ArrayRef<WgmmaTileCost> tiles,
                              const MeasuredTile &measured) {
  for (const WgmmaTileCost &tile : tiles)
    if (tile.config.kind == measured.kind &&
        tile.config.rows == measured.rows &&
        tile.config.columns == measured.columns)
      return &tile;
  return nullptr;
}

TEST(HopperTilesTest, MeasuredTilesAreCandidates) {
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(entry.work, getH200());
    for (const MeasuredTile &measured : entry.tiles)
      EXPECT_NE(findTile(tiles, measured), nullptr)
          << stringifyWgmmaSchedule(measured.kind).str() << " " << measured.rows
          << "x" << measured.columns;
  }
}

TEST(HopperTilesTest, PredictedTimesAreNearMeasuredOnes) {
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(entry.work, getH200());
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

TEST(HopperTilesTest, ChoosesNearlyTheBestMeasuredTile) {
  double logarithms = 0;
  for (const MeasuredCase &entry : getMeasuredCases()) {
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(entry.work, getH200());
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

TEST(HopperTilesTest, ChoosesNearlyTheBestOfAllTiles) {
  double logarithms = 0;
  for (const SweptCase &entry : getSweptCases()) {
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(entry.work, getH200());
    const HopperMatmulConfig &chosen = chooseCandidate(tiles).config;
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

TEST(HopperTilesTest, CandidatesFitTheTarget) {
  for (bool promoted : {false, true})
    for (int64_t resultBytes : {2, 4}) {
      MatmulWork work = mGrouped(4096, 4096, 4096, 8);
      work.promoted = promoted;
      work.resultBytes = resultBytes;
      for (const WgmmaTileCost &tile : rankWgmmaTiles(work, getH200())) {
        const HopperMatmulConfig &config = tile.config;
        HopperMatmulMemory memory = HopperMatmulMemory::get(config);
        EXPECT_LE(memory.total, getH200().sharedMemoryPerBlock);
        EXPECT_GE(config.stages, 2);
        // Every operand and box begins where a swizzle pattern may begin.
        EXPECT_EQ(config.columns * 128 % 1024, 0);
        EXPECT_EQ(memory.b % 1024, 0);
        EXPECT_EQ(memory.staging % 1024, 0);
        EXPECT_EQ(memory.barriers % 8, 0);
        EXPECT_TRUE(config.kind == kCooperative || !promoted);
      }
    }
}

/// A box of an N-major operand has 64 columns.
TEST(HopperTilesTest, InnermostColumnsComeInBoxes) {
  MatmulWork work = mGrouped(16384, 2048, 1408, 64);
  work.a = work.b = MatrixElement::BF16;
  work.elementBytes = 2;
  size_t all = rankWgmmaTiles(work, getH200()).size();
  work.mnMajorB = true;
  SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
  EXPECT_LT(tiles.size(), all);
  EXPECT_FALSE(tiles.empty());
  for (const WgmmaTileCost &tile : tiles)
    EXPECT_EQ(tile.config.columns % 64, 0);
}

/// TMA adds f32 sums, so only bf16 addends take registers beside the
/// accumulators.
TEST(HopperTilesTest, AddendsThatAreLoadedTakeRegisters) {
  auto hasWide = [](int64_t resultBytes) {
    MatmulWork work = gradient(33792, 4096, 7168, 8);
    work.accumulates = true;
    work.resultBytes = resultBytes;
    return llvm::any_of(
        rankWgmmaTiles(work, getH200()), [](const WgmmaTileCost &tile) {
          return tile.config.kind == WgmmaSchedule::PingPong &&
                 tile.config.rows == 128 && tile.config.columns == 160;
        });
  };
  EXPECT_TRUE(hasWide(/*resultBytes=*/4));
  EXPECT_FALSE(hasWide(/*resultBytes=*/2));
}

/// bf16 on an H200 (2026-11-26), on 132 multiprocessors. The first product
/// takes 58 us with 128x160 (96 tiles) and 51 us with 128x144 (128 tiles). The
/// second takes 92 us with 128x256 (112 tiles) and 80 us with 128x112 or
/// 128x224.
TEST(HopperTilesTest, WidthsFillSingleWavesOfDenseMatmuls) {
  auto countTiles = [](int64_t rows, int64_t columns, int64_t contraction) {
    MatmulWork work = mGrouped(rows, columns, contraction, 1);
    work.dense = true;
    work.a = work.b = MatrixElement::BF16;
    work.elementBytes = 2;
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
    const WgmmaTileCost &best = chooseCandidate(tiles);
    EXPECT_EQ(best.config.splits, 1);
    return static_cast<double>(best.tiles) / getH200().multiprocessors;
  };
  double narrow = countTiles(4096, 576, 7168);
  double wide = countTiles(512, 7168, 7168);
  EXPECT_NEAR(narrow / std::ceil(narrow), 1, 0.05);
  EXPECT_NEAR(wide / std::ceil(wide), 1, 0.05);
}

/// TFLOP/s with promoted accumulation on an H100 (2026-11-27), with 128x192,
/// 128x160 and 128x128. The first shape has 1188, 1005 and 1117. The second,
/// whose columns are not near a multiple of 192, has 1058, 1129 and 1120. The
/// third, of few stages, has 849, 821 and 893.
TEST(HopperTilesTest, PromotedSumsShareWideTiles) {
  auto choose = [](MatmulWork work) {
    work.promoted = true;
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
    return chooseCandidate(tiles).config;
  };
  HopperMatmulConfig wide = choose(mGrouped(16640, 8192, 5120, 16));
  EXPECT_EQ(wide.kind, kCooperative);
  EXPECT_EQ(wide.columns, 192);
  HopperMatmulConfig narrower = choose(mGrouped(65536, 1408, 2048, 64));
  EXPECT_EQ(narrower.kind, kCooperative);
  EXPECT_EQ(narrower.columns, 160);
  EXPECT_EQ(choose(mGrouped(131072, 1024, 1024, 64)).columns, 128);
}

/// One wave of blocks does not cover four rows of 52 tiles, but it covers four
/// rows of 16 tiles.
TEST(HopperTilesTest, WideResultsHaveHigherBands) {
  auto getRaster = [](MatmulWork work, bool promoted) {
    work.promoted = promoted;
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
    return chooseCandidate(tiles).config.raster;
  };
  EXPECT_EQ(getRaster(mGrouped(16640, 8192, 5120, 16), false), 8);
  EXPECT_EQ(getRaster(mGrouped(16640, 8192, 5120, 16), true), 12);
  EXPECT_EQ(getRaster(mGrouped(131072, 2048, 7168, 8), false), 4);
}

/// Promoted accumulation is never predicted to be faster. (Tiles of both were
/// measured separately, so a single one may be.)
TEST(HopperTilesTest, PromotionCostsTime) {
  for (MatmulWork work :
       {mGrouped(131072, 2048, 7168, 8), mGrouped(65536, 1408, 2048, 64),
        mGrouped(131072, 1024, 1024, 64), mGrouped(4096, 7168, 2048, 32),
        gradient(16640, 8192, 5120, 16), gradient(65536, 1408, 2048, 64)}) {
    auto predict = [&](bool promoted) {
      work.promoted = promoted;
      SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
      return chooseCandidate(tiles).cost.time;
    };
    EXPECT_GE(predict(/*promoted=*/true), predict(/*promoted=*/false));
  }
}

/// Rows of 2880 bytes straddle 128-byte lines of the L2 cache, so 1.5 times as
/// many lines are read. Tiles of 128x128 slow down most: on an H100 they took
/// 577 us, and 128x160 took 488 us (2026-11-25).
TEST(HopperTilesTest, StraddledLinesAskForLargerTiles) {
  auto getTime = [](int64_t columns, int64_t contraction) {
    MatmulWork work = mGrouped(24576, 4096, contraction, 10);
    SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
    const WgmmaTileCost *tile = llvm::find_if(tiles, [&](const auto &entry) {
      return entry.config.kind == kPingPong && entry.config.rows == 128 &&
             entry.config.columns == columns;
    });
    return static_cast<double>(tile->tileTime);
  };
  // Both lengths take 23 stages.
  EXPECT_GT(getTime(128, 2880) / getTime(128, 2944), 1.05);
  EXPECT_LT(getTime(160, 2880) / getTime(160, 2944), 1.01);
  MatmulWork work = mGrouped(24576, 4096, 2880, 10);
  SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
  EXPECT_EQ(chooseCandidate(tiles).config.columns, 160);
  // Rows that are padded to whole lines straddle none.
  work.pitchA = work.pitchB = 2944;
  tiles = rankWgmmaTiles(work, getH200());
  EXPECT_EQ(chooseCandidate(tiles).config.columns, 128);
}

TEST(HopperTilesTest, ChoiceDoesNotDependOnTheRun) {
  MatmulWork work = mGrouped(ShapedType::kDynamic, 2048, 7168, 8);
  SmallVector<WgmmaTileCost> first = rankWgmmaTiles(work, getH200());
  SmallVector<WgmmaTileCost> second = rankWgmmaTiles(work, getH200());
  EXPECT_EQ(chooseCandidate(first).cost, chooseCandidate(second).cost);
}

TEST(HopperTilesTest, GroupsFillHalfOfTheirLastTiles) {
  RaggedRows one = RaggedRows::get(128, 1), many = RaggedRows::get(128, 300);
  EXPECT_EQ(one.least, 0);
  EXPECT_EQ(one.most, 0);
  EXPECT_EQ(many.least, 128 * 145);
  EXPECT_EQ(many.most, 128 * 155);
}

TEST(HopperTilesTest, KnownRowsAndGradientsHaveOneTile) {
  EXPECT_EQ(
      getWgmmaAlternatives(mGrouped(4096, 512, 16384, 4), getH200()).size(),
      1u);
  EXPECT_EQ(getWgmmaAlternatives(gradient(ShapedType::kDynamic, 512, 16384, 4),
                                 getH200())
                .size(),
            1u);
}

TEST(HopperTilesTest, AlternativesLoseLittleForAnyNumberOfRows) {
  for (bool promoted : {false, true})
    for (auto [columns, contraction, groups] :
         {std::tuple(512, 16384, 4), std::tuple(8192, 5120, 16),
          std::tuple(2048, 7168, 8), std::tuple(8192, 5120, 1)}) {
      MatmulWork work =
          mGrouped(ShapedType::kDynamic, columns, contraction, groups);
      work.promoted = promoted;
      SmallVector<WgmmaTileCost, 1> alternatives =
          getWgmmaAlternatives(work, getH200());
      EXPECT_LE(alternatives.size(), 3u);
      double logarithms = 0, single = 0;
      int64_t cases = 0;
      for (int64_t rows = 1024; rows <= 65536; rows += 1024, ++cases) {
        work.rows = rows;
        SmallVector<WgmmaTileCost> tiles = rankWgmmaTiles(work, getH200());
        auto find =
            [&](const WgmmaTileCost &alternative) -> const WgmmaTileCost & {
          return *llvm::find_if(tiles, [&](const WgmmaTileCost &tile) {
            return tile.config.kind == alternative.config.kind &&
                   tile.config.rows == alternative.config.rows &&
                   tile.config.columns == alternative.config.columns;
          });
        };
        // The host compares only the times of the tiles.
        const WgmmaTileCost *chosen = nullptr;
        for (const WgmmaTileCost &alternative : alternatives) {
          const WgmmaTileCost &tile = find(alternative);
          if (!chosen || tile.tilesTime < chosen->tilesTime)
            chosen = &tile;
        }
        double best = chooseCandidate(tiles).cost.time;
        logarithms += std::log(chosen->cost.time / best);
        single += std::log(find(alternatives.front()).cost.time / best);
      }
      if (alternatives.size() > 1) {
        EXPECT_LT(logarithms, single);
      }
      if (columns == 512) {
        EXPECT_GT(alternatives.size(), 1u);
      }
      EXPECT_LT(std::exp(logarithms / cases), 1.03)
          << columns << " columns, " << groups << " groups";
    }
}

TEST(HopperTilesTest, SmallWorkIsBoundByOneWave) {
  SmallVector<WgmmaTileCost> tiles =
      rankWgmmaTiles(mGrouped(128, 128, 128, 1), getH200());
  EXPECT_EQ(chooseCandidate(tiles).waves, 1);
}

TEST(MatmulTilesTest, HugeSizesDoNotOverflow) {
  constexpr int64_t sizes[] = {0, 1, int64_t(1) << 31, int64_t(1) << 62};
  for (int64_t rows : sizes)
    for (int64_t columns : sizes)
      for (int64_t contraction : sizes)
        for (int64_t groups : sizes)
          for (const MatmulWork &work :
               {mGrouped(rows, columns, contraction, groups),
                gradient(rows, columns, contraction, groups)})
            for (const WgmmaTileCost &tile : rankWgmmaTiles(work, getH200()))
              EXPECT_GT(tile.cost.time, 0) << rows << "x" << columns << "x"
                                           << contraction << " in " << groups;
}

} // namespace
