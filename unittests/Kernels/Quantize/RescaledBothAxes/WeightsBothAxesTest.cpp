//===- WeightsBothAxesTest.cpp - Tests of tiles of both forms of weights --===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "fp8moe/Target/Cards.h"

#include "gtest/gtest.h"

#include <array>
#include <optional>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Returns the quantizations of expert weights along columns and along rows,
/// with power-of-two scales.
std::array<QuantizeWork, 2> createExperts(int64_t experts, int64_t lines,
                                          int64_t width) {
  static MLIRContext context;
  context.loadDialect<FP8MoEDialect>();
  QuantizeWork columns, rows;
  columns.context = rows.context = &context;
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
  return getBothAxesAlternatives(works, target);
}

std::optional<BothAxesAlternative> findRescaled(ArrayRef<QuantizeWork> works,
                                                const TargetInfo &target) {
  for (BothAxesAlternative &alternative : getAlternatives(works, target))
    if (isa<RescaledBothAxesTileAttr>(alternative.tile.tile))
      return std::move(alternative);
  return std::nullopt;
}

/// Microseconds on one NVIDIA H100, 2026-11-26.
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
    std::optional<BothAxesAlternative> rescaled = findRescaled(works, h100);
    ASSERT_TRUE(rescaled);
    EXPECT_FALSE(rescaled->range);
    EXPECT_NEAR(rescaled->tile.cost.time / 1e6, time, 0.1 * time)
        << experts << " experts of " << lines << "x" << width;
    // Other scales round differently, and a row must be whole 16-byte vectors.
    auto others = works;
    others[0].powerOfTwo = others[1].powerOfTwo = false;
    EXPECT_TRUE(getAlternatives(others, h100).empty());
    others = works;
    others[0].columns = others[1].rows = width - 8;
    EXPECT_TRUE(getAlternatives(others, h100).empty());
  }
}

/// A column pitch that is no multiple of 16 would need byte stores, unless
/// accesses may be misaligned.
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
