//===- QuantizeTilesTest.cpp - Tests of tiles of quantize kernels ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "gtest/gtest.h"

#include <cmath>

#include <vector>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getTarget(StringRef chip) { return *lookupTarget(chip); }

MLIRContext *getContext() {
  static MLIRContext context;
  context.loadDialect<FP8MoEDialect>();
  return &context;
}

QuantizeWork createWork() {
  QuantizeWork work;
  work.context = getContext();
  return work;
}

QuantizeWork jagged(int64_t rows, int64_t columns, int64_t groups,
                    bool fromRows, bool toRows) {
  QuantizeWork work = createWork();
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

QuantizeWork jaggedOuterTransposing(int64_t rows, int64_t columns,
                                    int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/false, /*toRows=*/true);
}
QuantizeWork jaggedInner(int64_t rows, int64_t columns, int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/true, /*toRows=*/true);
}
QuantizeWork jaggedOuter(int64_t rows, int64_t columns, int64_t groups) {
  return jagged(rows, columns, groups, /*fromRows=*/false, /*toRows=*/false);
}
/// One scale for each row of a row-major tensor.
QuantizeWork rowwise(int64_t tokens, int64_t width) {
  QuantizeWork work = createWork();
  work.rows = width;
  work.columns = tokens;
  work.inputColumnStride = work.outputColumnStride = width;
  return work;
}

/// Weights for dgrad: one scale for each of `k` rows of `n`, which are strided
/// in the input.
QuantizeWork weightsOuterTransposing(int64_t experts, int64_t k, int64_t n) {
  QuantizeWork work = createWork();
  work.segments = experts;
  work.rows = n;
  work.columns = k;
  work.inputRowStride = k;
  work.outputColumnStride = n;
  return work;
}

/// Microseconds of a tile on one NVIDIA H200: bf16 to e4m3, medians of
/// interleaved CUDA-event timings, all results equal bit for bit. Groups have
/// 0.5 to 1.5 times the mean size if no kind is named. Those of outer
/// reductions have equal sizes.
struct MeasuredTile {
  /// Threads are 0 if a family has only one number of them.
  int64_t columns, threads;
  double time;
  StringRef kind = "two_pass";

  bool isOf(TileAttrInterface tile) const {
    auto hasField = [&](StringRef name, int64_t value) {
      return llvm::any_of(tile.getFields(), [&](const TileField &field) {
        return field.name == name && std::get<int64_t>(field.value) == value;
      });
    };
    return getTileKind(tile) == kind && hasField("columns", columns) &&
           (threads == 0 || hasField("threads", threads));
  }
};
struct MeasuredCase {
  QuantizeWork work;
  std::vector<MeasuredTile> tiles;
  /// The kind of groups (benchmarks/timing.py).
  StringRef groups = "jagged";
};
const MeasuredCase measuredCases[] = {
#include "MeasuredTiles.inc"
    {jaggedOuter(16640, 5120, 1),
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
    {jaggedOuter(16640, 5120, 8),
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
    {jaggedOuter(16640, 5120, 64),
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
    {jaggedOuter(24576, 2048, 1),
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
    {jaggedOuter(24576, 2048, 8),
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
    {jaggedOuter(24576, 2048, 64),
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
    {jaggedOuter(32768, 7168, 1),
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
    {jaggedOuter(32768, 7168, 8),
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
    {jaggedOuter(32768, 7168, 64),
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
    {jaggedOuter(131072, 2048, 1),
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
    {jaggedOuter(131072, 2048, 8),
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
    {jaggedOuter(131072, 2048, 64),
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
    return measured.isOf(tile.tile);
  });
  return it == tiles.end() ? nullptr : it;
}

std::string describe(const QuantizeWork &work) {
  return stringifyQuantizeKind(getQuantizeKind(work)).str() + " " +
         std::to_string(work.rows) + "x" + std::to_string(work.columns) +
         " in " + std::to_string(work.segments);
}

/// Returns the single-launch kernel for both axes of works without power-of-two
/// scales, if any. At most one family has one.
std::optional<BothAxesAlternative> findBothAxes(ArrayRef<QuantizeWork> works,
                                                const TargetInfo &target) {
  SmallVector<BothAxesAlternative> alternatives =
      getBothAxesAlternatives(works, target);
  EXPECT_LE(alternatives.size(), 1u);
  if (alternatives.empty())
    return std::nullopt;
  return alternatives.front();
}

/// Rows and columns of one tensor from one launch, as above.
TEST(QuantizeTilesTest, BothAxesAreNearTheMeasured) {
  const TargetInfo &target = getTarget("sm_90a");
  struct {
    int64_t tokens, width, groups;
    double time;
  } cases[] = {{16640, 5120, 8, 120.1},  {16640, 5120, 16, 115.5},
               {16640, 5120, 64, 130.5}, {32768, 7168, 16, 323.3},
               {32768, 7168, 64, 316.0}, {131072, 2048, 64, 346.7},
               {4096, 5120, 8, 30.2}};
  for (auto [tokens, width, groups, time] : cases) {
    QuantizeWork works[] = {jaggedOuterTransposing(tokens, width, groups),
                            rowwise(tokens, width)};
    std::optional<BothAxesAlternative> both = findBothAxes(works, target);
    ASSERT_TRUE(both);
    EXPECT_NEAR(both->tile.cost.time / 1e6, time, 0.15 * time)
        << tokens << "x" << width << " in " << groups << " groups";
    EXPECT_LT(both->tile.cost.time, estimateApart(works, target).time);
  }
  // Groups of 33 MB are not faster with this tile, but an explicit request gets
  // it.
  QuantizeWork works[] = {jaggedOuterTransposing(131072, 2048, 16),
                          rowwise(131072, 2048)};
  std::optional<BothAxesAlternative> both = findBothAxes(works, target);
  ASSERT_TRUE(both);
  EXPECT_FALSE(mayBeInRange(both->range, works[0], target));
}

/// A program's bound, computed from its card, equals the bound for a static
/// number of tokens if the card is the target's: 30 MiB on an H200.
TEST(QuantizeTilesTest, BothAxesTakeThePartOfTheCacheThatIsUsable) {
  const TargetInfo &target = getTarget("sm_90a");
  QuantizeWork works[] = {jaggedOuterTransposing(16640, 5120, 16),
                          rowwise(16640, 5120)};
  auto bothAxes = findBothAxes(works, target);
  ASSERT_TRUE(bothAxes);
  RangeAttr range = bothAxes->range;
  EXPECT_EQ(range.getQuantity(), Quantity::GroupBytes);
  EXPECT_TRUE(range.getPercentOfL2());
  EXPECT_EQ(range.getUpTo(), 50);
  constexpr int64_t kMostBytes = 30 * 1024 * 1024;
  EXPECT_EQ(target.l2.bytes * range.getUpTo() / 100, kMostBytes);
  for (int64_t width : {2048, 5120, 7168}) {
    int64_t most = kMostBytes / (2 * width);
    for (auto [rows, isTaken] : {std::pair(most, true), {most + 1, false}}) {
      QuantizeWork columns = jaggedOuterTransposing(16 * rows, width, 16);
      EXPECT_EQ(mayBeInRange(range, columns, target), isTaken)
          << rows << " rows of " << width;
    }
  }
}

TEST(QuantizeTilesTest, BothAxesNeedRowsThatFit) {
  const TargetInfo &target = getTarget("sm_90a");
  auto find = [&](int64_t width, int64_t pitch, StringRef chip) {
    QuantizeWork columns = jaggedOuterTransposing(4096, width, 8);
    QuantizeWork rows = rowwise(4096, width);
    rows.outputColumnStride = pitch;
    return findBothAxes({columns, rows}, getTarget(chip)).has_value();
  };
  EXPECT_TRUE(find(2048, 2048, "sm_90a"));
  // The output is stored in vectors.
  EXPECT_FALSE(find(2048, 2052, "sm_90a"));
  // Partial vectors, and rows that are too long for four stages.
  EXPECT_FALSE(find(2044, 2048, "sm_90a"));
  EXPECT_FALSE(find(16384, 16384, "sm_90a"));
  EXPECT_FALSE(find(2048, 2048, "sm_100a"));
  EXPECT_FALSE(find(2048, 2048, "gfx942"));

  for (int64_t width : {8, 2048, 5120, 7168, 12288}) {
    std::optional<SinglePassOuterTile> tile =
        getBothAxesOuterTile(2 * width, target);
    ASSERT_TRUE(tile) << width;
    EXPECT_LE(single_pass_outer::SharedMemory(*tile).end,
              target.sharedMemoryPerBlock);
    EXPECT_GE(tile->rowStages, SinglePassOuterTile::kRowWarps);
  }
}

/// A measured bandwidth changes times only. It must not enable a kernel whose
/// registers were never counted.
TEST(QuantizeTilesTest, BandwidthDoesNotDecideWhatRuns) {
  for (StringRef chip : {"sm_100a", "gfx942", "gfx950"}) {
    const TargetInfo &target = getTarget(chip);
    Calibration calibration = *target.calibration;
    calibration.copyBandwidth =
        measured(*calibration.copyBandwidth * 1.05, "this test");
    TargetInfo recorded = target;
    recorded.calibration = &calibration;
    for (const QuantizeWork &work :
         {jaggedOuterTransposing(16640, 5120, 8), jaggedInner(16640, 5120, 8),
          jaggedOuter(16640, 5120, 8), rowwise(16640, 5120)}) {
      SmallVector<QuantizeTileCost> before = rankQuantizeTiles(work, target);
      SmallVector<QuantizeTileCost> after = rankQuantizeTiles(work, recorded);
      ASSERT_EQ(before.size(), after.size()) << describe(work);
      for (auto [old, now] : llvm::zip_equal(before, after)) {
        EXPECT_EQ(old.tile, now.tile);
        EXPECT_GT(old.trafficTime, now.trafficTime);
      }
    }
    QuantizeWork works[] = {jaggedOuterTransposing(16640, 5120, 8),
                            rowwise(16640, 5120)};
    std::optional<BothAxesAlternative> before = findBothAxes(works, target),
                                       after = findBothAxes(works, recorded);
    ASSERT_EQ(before.has_value(), after.has_value());
    if (before)
      EXPECT_EQ(before->tile.tile, after->tile.tile);
  }
}

/// Register-resident kernels of jagged groups need many more registers with
/// LLVM than with ptxas. Kernels of short rows need fewer.
TEST(QuantizeTilesTest, ResidentBlocksFollowTheChipsRegisters) {
  auto countBlocks = [](const QuantizeWork &work, StringRef chip) {
    for (const QuantizeTileCost &entry :
         rankQuantizeTiles(work, getTarget(chip)))
      if (auto tile = dyn_cast<RegisterResidentTileAttr>(entry.tile);
          tile && tile.getThreads() == 128 && tile.getColumns() == 1)
        return tile.getBlocks();
    return int64_t(0);
  };
  // Resident blocks are 65536 / (128 * 128) and 131072 / (128 * 128).
  EXPECT_EQ(countBlocks(rowwise(16384, 16384), "sm_90a"), 4);
  EXPECT_EQ(countBlocks(rowwise(16384, 16384), "gfx942"), 8);
  // Resident blocks are 65536 / (128 * 64) and 131072 / (128 * 48), with at
  // most 2048 threads.
  EXPECT_EQ(countBlocks(rowwise(16384, 2048), "sm_90a"), 8);
  EXPECT_EQ(countBlocks(rowwise(16384, 2048), "gfx942"), 16);
  // Resident blocks are 65536 / (128 * 96) and 131072 / (128 * 160).
  EXPECT_EQ(countBlocks(jaggedInner(16640, 5120, 8), "sm_90a"), 5);
  EXPECT_EQ(countBlocks(jaggedInner(16640, 5120, 8), "gfx942"), 6);
}

TEST(QuantizeTilesTest, ChoicesAreNearTheBestMeasured) {
  double logRatios = 0;
  for (const MeasuredCase &measured : measuredCases) {
    SmallVector<QuantizeTileCost> tiles =
        rankQuantizeTiles(measured.work, getTarget("sm_90a"));
    TileAttrInterface chosen = chooseQuantizeTile(tiles).tile;
    double best = measured.tiles.front().time, time = 0;
    for (const MeasuredTile &tile : measured.tiles) {
      best = std::min(best, tile.time);
      EXPECT_TRUE(findTile(tiles, tile)) << describe(measured.work);
      if (tile.isOf(chosen))
        time = tile.time;
    }
    EXPECT_GT(time, 0) << "the choice was not measured: "
                       << describe(measured.work);
    EXPECT_LE(time, 1.25 * best) << describe(measured.work);
    logRatios += std::log(time / best);
  }
  EXPECT_LE(std::exp(logRatios / std::size(measuredCases)), 1.05);
}

/// Bounds the error of each tile's prediction. Very uneven groups only test the
/// choice.
TEST(QuantizeTilesTest, PredictionsAreNearTheMeasured) {
  for (const MeasuredCase &measured : measuredCases) {
    if (measured.groups != "jagged")
      continue;
    SmallVector<QuantizeTileCost> tiles =
        rankQuantizeTiles(measured.work, getTarget("sm_90a"));
    for (const MeasuredTile &tile : measured.tiles) {
      double ratio = findTile(tiles, tile)->cost.time / 1e6 / tile.time;
      EXPECT_GE(ratio, 0.6) << describe(measured.work) << " " << tile.columns
                            << " " << tile.threads;
      EXPECT_LE(ratio, 2.6) << describe(measured.work) << " " << tile.columns
                            << " " << tile.threads;
    }
  }
}

// No device holds such sizes, and other code refuses them. The model must not
// overflow.
TEST(QuantizeTilesTest, HugeSizesDoNotOverflow) {
  constexpr int64_t sizes[] = {0,
                               1,
                               int64_t(1) << 31,
                               int64_t(1) << 34,
                               int64_t(1) << 62,
                               ShapedType::kDynamic};
  for (StringRef chip : {"sm_90a", "sm_100a", "gfx942", "gfx950"})
    for (int64_t rows : sizes)
      for (int64_t columns : sizes)
        for (int64_t groups : sizes)
          for (bool fromRows : {false, true}) {
            QuantizeWork work =
                jagged(rows, columns, groups, fromRows, /*toRows=*/true);
            for (const QuantizeTileCost &tile :
                 rankQuantizeTiles(work, getTarget(chip)))
              EXPECT_GT(tile.cost.time, 0)
                  << rows << "x" << columns << " in " << groups;
          }
}

TEST(QuantizeTilesTest, FewKernelsServeAllLengths) {
  const TargetInfo &target = getTarget("sm_90a");
  for (int64_t columns : {512, 2048, 7168})
    for (int64_t groups : {int64_t(1), int64_t(8), int64_t(64), int64_t(128),
                           ShapedType::kDynamic}) {
      QuantizeWork work = jaggedInner(ShapedType::kDynamic, columns, groups);
      SmallVector<AlternativeAttr> alternatives =
          getQuantizeAlternatives(work, target, /*areGeneral=*/true);
      EXPECT_LE(alternatives.size(), 4u) << columns << " " << groups;
      int64_t above = 0;
      for (AlternativeAttr alternative : alternatives) {
        EXPECT_TRUE(findKernelFamily(alternative.getTile())->isGeneral());
        RangeAttr range = alternative.getRange();
        EXPECT_EQ(range ? range.getAbove() : 0, above);
        above = range ? range.getUpTo() : kUnbounded;
      }
      EXPECT_EQ(above, kUnbounded);
    }
}

} // namespace
