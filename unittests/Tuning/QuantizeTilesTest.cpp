//===- QuantizeTilesTest.cpp - Tests of tiles of quantize kernels ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/QuantizeTiles.h"

#include "gtest/gtest.h"

#include <cmath>

#include <vector>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getTarget(StringRef chip) { return *lookupTarget(chip); }

QuantizeWork jagged(int64_t rows, int64_t columns, int64_t groups,
                    bool fromRows, bool toRows) {
  QuantizeWork work;
  work.jagged = true;
  work.segments = groups;
  work.rows = rows;
  work.columns = columns;
  work.inputRowStride = fromRows ? 1 : columns;
  work.inputColumnStride = fromRows ? rows : 1;
  work.outputRowStride = toRows ? 1 : columns;
  work.outputColumnStride = toRows ? rows : 1;
  return work;
}

QuantizeWork jaggedToSlices(int64_t rows, int64_t columns, int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/false, /*toRows=*/true);
}
QuantizeWork jaggedSlices(int64_t rows, int64_t columns, int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/true, /*toRows=*/true);
}
QuantizeWork jaggedStrips(int64_t rows, int64_t columns, int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/false, /*toRows=*/false);
}
/// A scale for each row of a row-major tensor: its rows are the slices.
QuantizeWork rowwise(int64_t tokens, int64_t width) {
  QuantizeWork work;
  work.rows = width;
  work.columns = tokens;
  work.inputColumnStride = work.outputColumnStride = width;
  return work;
}

/// Microseconds of a tile on one NVIDIA H200: bf16 to e4m3, groups of equal
/// size, median of 15 interleaved CUDA-event timings, all results equal bit for
/// bit.
struct MeasuredTile {
  int64_t kept, threads;
  double time;
  TileSchedule method = TileSchedule::TwoPass;
};
struct MeasuredCase {
  QuantizeWork work;
  std::vector<MeasuredTile> tiles;
};
const MeasuredCase measuredCases[] = {
    {jaggedToSlices(16640, 5120, 1),
     {{64, 256, 244}, {128, 512, 267}, {64, 544, 80, TileSchedule::Streamed}}},
    {jaggedToSlices(16640, 5120, 8),
     {{64, 256, 136}, {128, 512, 142}, {64, 544, 79, TileSchedule::Streamed}}},
    {jaggedToSlices(16640, 5120, 64),
     {{64, 256, 160}, {128, 512, 181}, {64, 544, 98, TileSchedule::Streamed}}},
    {jaggedToSlices(24576, 2048, 1),
     {{64, 256, 324}, {128, 512, 365}, {64, 544, 54, TileSchedule::Streamed}}},
    {jaggedToSlices(24576, 2048, 8),
     {{64, 256, 75}, {128, 512, 77}, {64, 544, 51, TileSchedule::Streamed}}},
    {jaggedToSlices(24576, 2048, 64),
     {{64, 256, 63}, {128, 512, 69}, {64, 544, 59, TileSchedule::Streamed}}},
    {jaggedToSlices(32768, 7168, 1),
     {{64, 256, 508}, {128, 512, 544}, {64, 544, 212, TileSchedule::Streamed}}},
    {jaggedToSlices(32768, 7168, 8),
     {{64, 256, 355}, {128, 512, 365}, {64, 544, 197, TileSchedule::Streamed}}},
    {jaggedToSlices(32768, 7168, 64),
     {{64, 256, 254}, {128, 512, 277}, {64, 544, 203, TileSchedule::Streamed}}},
    {jaggedToSlices(131072, 2048, 1),
     {{64, 256, 1686},
      {128, 512, 1908},
      {64, 544, 276, TileSchedule::Streamed}}},
    {jaggedToSlices(131072, 2048, 8),
     {{64, 256, 376}, {128, 512, 380}, {64, 544, 230, TileSchedule::Streamed}}},
    {jaggedToSlices(131072, 2048, 64),
     {{64, 256, 383}, {128, 512, 393}, {64, 544, 228, TileSchedule::Streamed}}},
    {jaggedSlices(16640, 5120, 1),
     {{4, 128, 124},
      {8, 256, 144},
      {16, 512, 145},
      {16, 128, 526, TileSchedule::Held},
      {8, 128, 270, TileSchedule::Held},
      {4, 128, 145, TileSchedule::Held},
      {2, 128, 98, TileSchedule::Held},
      {1, 128, 72, TileSchedule::Held},
      {1, 256, 71, TileSchedule::Held},
      {1, 512, 88, TileSchedule::Held}}},
    {jaggedSlices(16640, 5120, 8),
     {{4, 128, 101},
      {8, 256, 116},
      {16, 512, 122},
      {16, 128, 108, TileSchedule::Held},
      {8, 128, 78, TileSchedule::Held},
      {4, 128, 70, TileSchedule::Held},
      {2, 128, 76, TileSchedule::Held},
      {1, 128, 103, TileSchedule::Held},
      {1, 256, 210, TileSchedule::Held},
      {1, 512, 418, TileSchedule::Held}}},
    {jaggedSlices(16640, 5120, 64),
     {{4, 128, 445},
      {8, 256, 508},
      {16, 512, 538},
      {16, 128, 79, TileSchedule::Held},
      {8, 128, 100, TileSchedule::Held},
      {4, 128, 169, TileSchedule::Held},
      {2, 128, 335, TileSchedule::Held},
      {1, 128, 586, TileSchedule::Held},
      {1, 256, 1384, TileSchedule::Held},
      {1, 512, 2930, TileSchedule::Held}}},
    {jaggedSlices(24576, 2048, 1),
     {{4, 128, 80},
      {8, 256, 80},
      {16, 512, 80},
      {16, 128, 633, TileSchedule::Held},
      {8, 128, 314, TileSchedule::Held},
      {4, 128, 136, TileSchedule::Held},
      {2, 128, 84, TileSchedule::Held},
      {1, 128, 53, TileSchedule::Held},
      {1, 256, 47, TileSchedule::Held},
      {1, 512, 48, TileSchedule::Held}}},
    {jaggedSlices(24576, 2048, 8),
     {{4, 128, 49},
      {8, 256, 50},
      {16, 512, 60},
      {16, 128, 84, TileSchedule::Held},
      {8, 128, 50, TileSchedule::Held},
      {4, 128, 44, TileSchedule::Held},
      {2, 128, 43, TileSchedule::Held},
      {1, 128, 52, TileSchedule::Held},
      {1, 256, 93, TileSchedule::Held},
      {1, 512, 177, TileSchedule::Held}}},
    {jaggedSlices(24576, 2048, 64),
     {{4, 128, 79},
      {8, 256, 82},
      {16, 512, 117},
      {16, 128, 43, TileSchedule::Held},
      {8, 128, 50, TileSchedule::Held},
      {4, 128, 72, TileSchedule::Held},
      {2, 128, 132, TileSchedule::Held},
      {1, 128, 241, TileSchedule::Held},
      {1, 256, 566, TileSchedule::Held},
      {1, 512, 1204, TileSchedule::Held}}},
    {jaggedSlices(32768, 7168, 1),
     {{4, 128, 321},
      {8, 256, 371},
      {16, 512, 375},
      {16, 128, 1074, TileSchedule::Held},
      {8, 128, 563, TileSchedule::Held},
      {4, 128, 350, TileSchedule::Held},
      {2, 128, 334, TileSchedule::Held},
      {1, 128, 248, TileSchedule::Held},
      {1, 256, 203, TileSchedule::Held},
      {1, 512, 179, TileSchedule::Held}}},
    {jaggedSlices(32768, 7168, 8),
     {{4, 128, 220},
      {8, 256, 246},
      {16, 512, 257},
      {16, 128, 349, TileSchedule::Held},
      {8, 128, 241, TileSchedule::Held},
      {4, 128, 184, TileSchedule::Held},
      {2, 128, 175, TileSchedule::Held},
      {1, 128, 189, TileSchedule::Held},
      {1, 256, 326, TileSchedule::Held},
      {1, 512, 616, TileSchedule::Held}}},
    {jaggedSlices(32768, 7168, 64),
     {{4, 128, 332},
      {8, 256, 405},
      {16, 512, 445},
      {16, 128, 175, TileSchedule::Held},
      {8, 128, 182, TileSchedule::Held},
      {4, 128, 250, TileSchedule::Held},
      {2, 128, 475, TileSchedule::Held},
      {1, 128, 831, TileSchedule::Held},
      {1, 256, 1942, TileSchedule::Held},
      {1, 512, 4024, TileSchedule::Held}}},
    {jaggedSlices(131072, 2048, 1),
     {{4, 128, 394},
      {8, 256, 393},
      {16, 512, 393},
      {16, 128, 4052, TileSchedule::Held},
      {8, 128, 1944, TileSchedule::Held},
      {4, 128, 996, TileSchedule::Held},
      {2, 128, 564, TileSchedule::Held},
      {1, 128, 377, TileSchedule::Held},
      {1, 256, 372, TileSchedule::Held},
      {1, 512, 292, TileSchedule::Held}}},
    {jaggedSlices(131072, 2048, 8),
     {{4, 128, 357},
      {8, 256, 361},
      {16, 512, 414},
      {16, 128, 607, TileSchedule::Held},
      {8, 128, 384, TileSchedule::Held},
      {4, 128, 361, TileSchedule::Held},
      {2, 128, 296, TileSchedule::Held},
      {1, 128, 211, TileSchedule::Held},
      {1, 256, 198, TileSchedule::Held},
      {1, 512, 259, TileSchedule::Held}}},
    {jaggedSlices(131072, 2048, 64),
     {{4, 128, 234},
      {8, 256, 243},
      {16, 512, 305},
      {16, 128, 302, TileSchedule::Held},
      {8, 128, 214, TileSchedule::Held},
      {4, 128, 199, TileSchedule::Held},
      {2, 128, 214, TileSchedule::Held},
      {1, 128, 302, TileSchedule::Held},
      {1, 256, 635, TileSchedule::Held},
      {1, 512, 1285, TileSchedule::Held}}},
    {rowwise(16640, 5120),
     {{4, 128, 100},
      {8, 256, 98},
      {16, 512, 98},
      {16, 128, 123, TileSchedule::Held},
      {8, 128, 86, TileSchedule::Held},
      {4, 128, 65, TileSchedule::Held},
      {2, 128, 62, TileSchedule::Held},
      {1, 128, 62, TileSchedule::Held},
      {1, 256, 64, TileSchedule::Held},
      {1, 512, 84, TileSchedule::Held}}},
    {rowwise(24576, 2048),
     {{4, 128, 42},
      {8, 256, 43},
      {16, 512, 44},
      {16, 128, 48, TileSchedule::Held},
      {8, 128, 39, TileSchedule::Held},
      {4, 128, 39, TileSchedule::Held},
      {2, 128, 38, TileSchedule::Held},
      {1, 128, 39, TileSchedule::Held},
      {1, 256, 51, TileSchedule::Held},
      {1, 512, 120, TileSchedule::Held}}},
    {rowwise(32768, 7168),
     {{4, 128, 282},
      {8, 256, 284},
      {16, 512, 289},
      {16, 128, 330, TileSchedule::Held},
      {8, 128, 292, TileSchedule::Held},
      {4, 128, 177, TileSchedule::Held},
      {2, 128, 164, TileSchedule::Held},
      {1, 128, 164, TileSchedule::Held},
      {1, 256, 164, TileSchedule::Held},
      {1, 512, 189, TileSchedule::Held}}},
    {rowwise(131072, 2048),
     {{4, 128, 191},
      {8, 256, 193},
      {16, 512, 206},
      {16, 128, 220, TileSchedule::Held},
      {8, 128, 188, TileSchedule::Held},
      {4, 128, 188, TileSchedule::Held},
      {2, 128, 188, TileSchedule::Held},
      {1, 128, 187, TileSchedule::Held},
      {1, 256, 252, TileSchedule::Held},
      {1, 512, 618, TileSchedule::Held}}},
    {jaggedStrips(16640, 5120, 1),
     {{32, 128, 290},
      {64, 128, 488},
      {128, 128, 878},
      {32, 256, 179},
      {64, 256, 265},
      {128, 256, 468},
      {256, 256, 875},
      {32, 512, 180},
      {64, 512, 164},
      {128, 512, 259},
      {256, 512, 473}}},
    {jaggedStrips(16640, 5120, 8),
     {{32, 128, 147},
      {64, 128, 156},
      {128, 128, 154},
      {32, 256, 134},
      {64, 256, 136},
      {128, 256, 153},
      {256, 256, 153},
      {32, 512, 128},
      {64, 512, 114},
      {128, 512, 134},
      {256, 512, 151}}},
    {jaggedStrips(16640, 5120, 64),
     {{32, 128, 117},
      {64, 128, 95},
      {128, 128, 99},
      {32, 256, 153},
      {64, 256, 106},
      {128, 256, 96},
      {256, 256, 104},
      {32, 512, 258},
      {64, 512, 158},
      {128, 512, 122},
      {256, 512, 101}}},
    {jaggedStrips(24576, 2048, 1),
     {{32, 128, 381},
      {64, 128, 678},
      {128, 128, 1255},
      {32, 256, 208},
      {64, 256, 364},
      {128, 256, 648},
      {256, 256, 1253},
      {32, 512, 125},
      {64, 512, 198},
      {128, 512, 352},
      {256, 512, 662}}},
    {jaggedStrips(24576, 2048, 8),
     {{32, 128, 82},
      {64, 128, 113},
      {128, 128, 181},
      {32, 256, 84},
      {64, 256, 78},
      {128, 256, 108},
      {256, 256, 182},
      {32, 512, 73},
      {64, 512, 80},
      {128, 512, 76},
      {256, 512, 108}}},
    {jaggedStrips(24576, 2048, 64),
     {{32, 128, 62},
      {64, 128, 54},
      {128, 128, 77},
      {32, 256, 79},
      {64, 256, 55},
      {128, 256, 53},
      {256, 256, 78},
      {32, 512, 115},
      {64, 512, 78},
      {128, 512, 60},
      {256, 512, 55}}},
    {jaggedStrips(32768, 7168, 1),
     {{32, 128, 622},
      {64, 128, 975},
      {128, 128, 1742},
      {32, 256, 398},
      {64, 256, 552},
      {128, 256, 932},
      {256, 256, 1733},
      {32, 512, 402},
      {64, 512, 363},
      {128, 512, 529},
      {256, 512, 945}}},
    {jaggedStrips(32768, 7168, 8),
     {{32, 128, 391},
      {64, 128, 359},
      {128, 128, 345},
      {32, 256, 378},
      {64, 256, 365},
      {128, 256, 346},
      {256, 256, 338},
      {32, 512, 372},
      {64, 512, 352},
      {128, 512, 356},
      {256, 512, 341}}},
    {jaggedStrips(32768, 7168, 64),
     {{32, 128, 269},
      {64, 128, 262},
      {128, 128, 333},
      {32, 256, 303},
      {64, 256, 240},
      {128, 256, 255},
      {256, 256, 330},
      {32, 512, 448},
      {64, 512, 286},
      {128, 512, 258},
      {256, 512, 268}}},
    {jaggedStrips(131072, 2048, 1),
     {{32, 128, 1996},
      {64, 128, 3600},
      {128, 128, 6646},
      {32, 256, 1077},
      {64, 256, 1894},
      {128, 256, 3415},
      {256, 256, 6620},
      {32, 512, 652},
      {64, 512, 1019},
      {128, 512, 1837},
      {256, 512, 3474}}},
    {jaggedStrips(131072, 2048, 8),
     {{32, 128, 418},
      {64, 128, 571},
      {128, 128, 928},
      {32, 256, 417},
      {64, 256, 388},
      {128, 256, 538},
      {256, 256, 929},
      {32, 512, 420},
      {64, 512, 387},
      {128, 512, 374},
      {256, 512, 536}}},
    {jaggedStrips(131072, 2048, 64),
     {{32, 128, 421},
      {64, 128, 394},
      {128, 128, 378},
      {32, 256, 392},
      {64, 256, 396},
      {128, 256, 382},
      {256, 256, 367},
      {32, 512, 342},
      {64, 512, 332},
      {128, 512, 389},
      {256, 512, 375}}},
};

const QuantizeTileCost *findTile(ArrayRef<QuantizeTileCost> tiles,
                                 const MeasuredTile &measured) {
  const auto *it = llvm::find_if(tiles, [&](const QuantizeTileCost &tile) {
    return tile.schedule.columnsPerBlock == measured.kept &&
           tile.schedule.threads == measured.threads &&
           tile.schedule.method == measured.method;
  });
  return it == tiles.end() ? nullptr : it;
}

std::string describe(const QuantizeWork &work) {
  return stringifyQuantizeSchedule(getQuantizeScheduleKind(work)).str() + " " +
         std::to_string(work.rows) + "x" + std::to_string(work.columns) +
         " in " + std::to_string(work.segments);
}

TEST(QuantizeTilesTest, ChoicesAreNearTheBestMeasured) {
  double logRatios = 0;
  for (const MeasuredCase &measured : measuredCases) {
    SmallVector<QuantizeTileCost> tiles =
        rankQuantizeTiles(measured.work, getTarget("sm_90a"));
    const QuantizeSchedule &chosen = chooseQuantizeTile(tiles).schedule;
    double best = measured.tiles.front().time, time = 0;
    for (const MeasuredTile &tile : measured.tiles) {
      best = std::min(best, tile.time);
      EXPECT_TRUE(findTile(tiles, tile)) << describe(measured.work);
      if (tile.kept == chosen.columnsPerBlock &&
          tile.threads == chosen.threads && tile.method == chosen.method)
        time = tile.time;
    }
    EXPECT_GT(time, 0) << "the choice was not measured: "
                       << describe(measured.work);
    EXPECT_LE(time, 1.3 * best) << describe(measured.work);
    logRatios += std::log(time / best);
  }
  EXPECT_LE(std::exp(logRatios / std::size(measuredCases)), 1.05);
}

/// How far predictions are from measurements, for every tile.
TEST(QuantizeTilesTest, PredictionsAreNearTheMeasured) {
  for (const MeasuredCase &measured : measuredCases) {
    SmallVector<QuantizeTileCost> tiles =
        rankQuantizeTiles(measured.work, getTarget("sm_90a"));
    for (const MeasuredTile &tile : measured.tiles) {
      double ratio = findTile(tiles, tile)->cost.time / 1e6 / tile.time;
      EXPECT_GE(ratio, 0.6)
          << describe(measured.work) << " " << tile.kept << " " << tile.threads;
      EXPECT_LE(ratio, 2) << describe(measured.work) << " " << tile.kept << " "
                          << tile.threads;
    }
  }
}

} // namespace
