//===- WeightsBothAxesTest.cpp - Tests of tiles of both forms of weights --===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/Cards.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/HeldBothAxesTiles.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Both forms of the weights of experts, whose scales are powers of two: the
/// quantizations along columns and along rows.
std::array<QuantizeWork, 2> createExperts(int64_t experts, int64_t lines,
                                          int64_t width) {
  QuantizeWork columns, rows;
  columns.segments = rows.segments = experts;
  columns.rows = rows.columns = lines;
  columns.columns = rows.rows = width;
  columns.powerOfTwo = rows.powerOfTwo = true;
  columns.inputRowStride = rows.inputColumnStride = width;
  columns.inputColumnStride = rows.inputRowStride = 1;
  bool isKnown = !ShapedType::isDynamic(lines);
  columns.inputSegmentStride = rows.inputSegmentStride =
      isKnown ? lines * width : ShapedType::kDynamic;
  columns.outputRowStride = rows.outputRowStride = 1;
  columns.outputColumnStride = lines;
  rows.outputColumnStride = width;
  return {columns, rows};
}

SmallVector<BothAxesAlternative> getAlternatives(ArrayRef<QuantizeWork> works,
                                                 const TargetInfo &target) {
  static MLIRContext context;
  context.loadDialect<FP8MoEDialect>();
  return getBothAxesAlternatives(&context, works, target);
}

/// The alternative of `method`, if there is one.
std::optional<BothAxesAlternative> findAlternative(QuantizeMethod method,
                                                   ArrayRef<QuantizeWork> works,
                                                   const TargetInfo &target) {
  for (BothAxesAlternative &alternative : getAlternatives(works, target))
    if (alternative.tiles.front().config.method == method)
      return std::move(alternative);
  return std::nullopt;
}
std::optional<BothAxesAlternative> findHeld(ArrayRef<QuantizeWork> works,
                                            const TargetInfo &target) {
  return findAlternative(QuantizeMethod::HeldBothAxes, works, target);
}

/// In microseconds on one NVIDIA H100, 2026-11-26.
struct MeasuredExperts {
  int64_t experts, lines, width;
  double time;
};

TEST(WeightsBothAxesTest, RescaledWeightsAreNearTheMeasured) {
  const TargetInfo &h100 = lookupCard("h100")->info;
  for (auto [experts, lines, width, time] :
       {MeasuredExperts{16, 8192, 5120, 1175},
        MeasuredExperts{64, 7168, 2048, 1636},
        MeasuredExperts{128, 1408, 2048, 658},
        MeasuredExperts{1, 8192, 5120, 88}}) {
    auto works = createExperts(experts, lines, width);
    std::optional<BothAxesAlternative> rescaled =
        findAlternative(QuantizeMethod::RescaledBothAxes, works, h100);
    ASSERT_TRUE(rescaled);
    ASSERT_EQ(rescaled->tiles.size(), 1u);
    EXPECT_FALSE(rescaled->range);
    EXPECT_NEAR(rescaled->tiles[0].cost.time / 1e6, time, 0.1 * time)
        << experts << " experts of " << lines << "x" << width;
    // Other scales round differently, and a row must be whole chunks.
    auto others = works;
    others[0].powerOfTwo = others[1].powerOfTwo = false;
    EXPECT_TRUE(getAlternatives(others, h100).empty());
    others = works;
    others[0].columns = others[1].rows = width - 8;
    EXPECT_TRUE(getAlternatives(others, h100).empty());
  }
}

TEST(WeightsBothAxesTest, HeldWeightsAreNearTheMeasured) {
  const TargetInfo &h100 = lookupCard("h100")->info;
  auto find = [&](int64_t experts, int64_t lines, int64_t width) {
    return findHeld(createExperts(experts, lines, width), h100);
  };
  for (auto [experts, lines, width, time] :
       {MeasuredExperts{64, 1408, 2048, 289},
        MeasuredExperts{128, 768, 2048, 309},
        MeasuredExperts{64, 2048, 1408, 282},
        MeasuredExperts{32, 2880, 2880, 463},
        MeasuredExperts{8, 4096, 2048, 114},
        MeasuredExperts{8, 1408, 2048, 54}}) {
    std::optional<BothAxesAlternative> held = find(experts, lines, width);
    ASSERT_TRUE(held);
    EXPECT_TRUE(held->isWorthwhile);
    EXPECT_NEAR(held->tiles[0].cost.time / 1e6, time, 0.2 * time)
        << experts << " experts of " << lines << "x" << width;
    const QuantizeConfig &config = held->tiles[0].config;
    HeldBothAxesTile tile;
    tile.columns = width;
    tile.rowStages = config.rowStages;
    tile.tiles = config.heldTiles;
    EXPECT_LE(held_both_axes::SharedMemory(tile).end,
              h100.sharedMemoryPerBlock);
    EXPECT_EQ(tile.rowStages % tile.getTeams(), 0);
    EXPECT_EQ(tile.getThreads() % nvidia::kWarpgroupThreads, 0);
    EXPECT_LE(tile.getThreads(), 1024);
  }
  // Rows of which shared memory holds no two tiles.
  EXPECT_FALSE(find(64, 2048, 4096));
  // Few experts are quantized faster in launches of their own.
  EXPECT_FALSE(find(1, 768, 768)->isWorthwhile);
  // Blocks hold experts that have no more tiles than there are blocks.
  EXPECT_FALSE(find(8, 8192, 2048));
  // Where nobody knows how long they are, the lengths that are worthwhile.
  for (bool areMany : {false, true}) {
    std::optional<BothAxesAlternative> held =
        find(areMany ? 64 : 1, ShapedType::kDynamic, 2048);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->isWorthwhile, areMany);
    if (areMany) {
      ASSERT_TRUE(held->range);
      EXPECT_LE(held->range.getUpTo(),
                h100.multiprocessors * HeldBothAxesTile::kLines);
    }
  }
  // Experts that do not begin at whole chunks.
  auto works = createExperts(64, 1408, 2048);
  works[0].inputSegmentStride = works[1].inputSegmentStride = 1408 * 2048 + 4;
  EXPECT_FALSE(findHeld(works, h100));
}

/// Where multiprocessors are the limit a kernel for each axis is faster, as it
/// was measured on one NVIDIA H200, 2026-11-28; on an H100 it never was.
TEST(WeightsBothAxesTest, HeldWeightsAreForCardsWithSlowerMemory) {
  const TargetInfo &target = *lookupTarget("sm_90a"),
                   &h100 = lookupCard("h100")->info,
                   &h200 = lookupCard("h200")->info;
  struct {
    int64_t experts, lines, width;
    double held, rescaled, apart;
  } cases[] = {{181, 2048, 512, 367, 344, 274}, {121, 2048, 768, 284, 302, 275},
               {91, 2048, 1024, 245, 287, 276}, {66, 2048, 1408, 238, 267, 279},
               {45, 2048, 2048, 254, 258, 273}, {128, 768, 2048, 265, 279, 297},
               {32, 2880, 2880, 414, 366, 389}, {64, 3072, 2048, 592, 529, 580},
               {8, 4096, 2048, 95, 100, 102},   {16, 1408, 2048, 72, 74, 75}};
  for (auto [experts, lines, width, held, rescaled, apart] : cases) {
    auto works = createExperts(experts, lines, width);
    std::optional<BothAxesAlternative> alternative = findHeld(works, target);
    ASSERT_TRUE(alternative);
    EXPECT_TRUE(alternative->isWorthwhile);
    EXPECT_NEAR(alternative->tiles[0].cost.time / 1e6, held, 0.1 * held)
        << experts << " experts of " << lines << "x" << width;
    ASSERT_TRUE(alternative->range);
    EXPECT_EQ(mayBeInRange(alternative->range, works[0], h200),
              held < std::min(rescaled, apart))
        << experts << " experts of " << lines << "x" << width;
    EXPECT_TRUE(mayBeInRange(alternative->range, works[0], h100));
  }
  // So many lines need more multiprocessors than an H100 PCIe has, and so few
  // experts are worthwhile on no other card.
  std::optional<BothAxesAlternative> alternative =
      findHeld(createExperts(1, 4096, 1024), target);
  ASSERT_TRUE(alternative);
  EXPECT_FALSE(alternative->isWorthwhile);
}

/// Columns that do not lie whole chunks apart would be stored byte by byte,
/// unless accesses may begin anywhere.
TEST(WeightsBothAxesTest, ColumnsLieWholeChunksApart) {
  for (const TargetInfo &target : knownTargets())
    for (int64_t lines : {1408, 1400, 1401}) {
      bool takesAll = target.has(Feature::UnalignedVectors);
      EXPECT_EQ(getAlternatives(createExperts(64, lines, 2048), target).empty(),
                !target.isGPU() || (!takesAll && lines % 16 != 0))
          << target.chip.str() << ", " << lines << " lines";
    }
}

} // namespace
