//===- SinglePassModelsTest.cpp - What single passes ask and count --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"

#include "Model/HostSizes.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Returns dense sizes of experts 4 x rows 100 x columns 32.
QuantizeSizes<int64_t> getExperts() {
  QuantizeSizes<int64_t> sizes{};
  sizes.segments = 4;
  sizes.reduction = 100;
  sizes.parallel = 32;
  sizes.inSegment = 3200;
  sizes.inReduction = 32;
  sizes.inParallel = 1;
  return sizes;
}

bool mayRunOuter(const QuantizeSizes<int64_t> &sizes, int64_t inputBytes = 2,
                 bool hasSegmentDim = true) {
  return llvm::all_of(
      single_pass_outer::getSizeDemands(sizes, inputBytes, hasSegmentDim),
      mayHold);
}

TEST(SinglePassModelsTest, TensorMapsAskForAlignedPitches) {
  QuantizeSizes<int64_t> sizes = getExperts();
  EXPECT_TRUE(mayRunOuter(sizes));
  // TMA needs strides of 16 bytes, and 8 bytes are refused in either dimension.
  sizes.inReduction = 36;
  EXPECT_FALSE(mayRunOuter(sizes));
  EXPECT_TRUE(mayRunOuter(sizes, /*inputBytes=*/4));
  sizes.inReduction = ShapedType::kDynamic;
  EXPECT_TRUE(mayRunOuter(sizes));
  sizes.inSegment = 3204;
  EXPECT_FALSE(mayRunOuter(sizes));
  EXPECT_TRUE(mayRunOuter(sizes, /*inputBytes=*/2, /*hasSegmentDim=*/false));
}

TEST(SinglePassModelsTest, TensorMapsHaveNoEmptyDimensions) {
  for (auto member :
       {&QuantizeSizes<int64_t>::segments, &QuantizeSizes<int64_t>::reduction,
        &QuantizeSizes<int64_t>::parallel}) {
    QuantizeSizes<int64_t> sizes = getExperts();
    sizes.*member = 0;
    EXPECT_FALSE(mayRunOuter(sizes));
    sizes.*member = kMaxCount;
    EXPECT_FALSE(mayRunOuter(sizes));
    sizes.*member = ShapedType::kDynamic;
    EXPECT_TRUE(mayRunOuter(sizes));
  }
}

/// The numbers that the kernel gives to the tiles of a panel, of a segment that
/// begins `begin` rows into its first tile (Producer.cpp).
int64_t countOnDevice(int64_t length, int64_t begin, bool jagged) {
  using namespace single_pass_outer;
  int64_t tiles = ceilDiv(begin + length, kLines);
  if (jagged && tiles <= kShortTiles)
    return tiles * kSpanTiles;
  return ceilDiv(tiles, kSpanTiles) * kSpanTiles;
}

// Blocks write to one slot per tile number, so the scratch must have enough.
TEST(SinglePassModelsTest, TilesHaveNoMoreNumbersThanCounted) {
  constexpr int64_t kSegments = 100;
  for (int64_t length = 1; length < 30000; length += length < 5000 ? 1 : 61)
    for (bool jagged : {false, true})
      for (int64_t begin : {0, 31}) {
        // Segments that are all alike begin with a tile.
        if (begin && !jagged)
          continue;
        // With one segment, rounding up leaves room that each of many does not
        // have.
        for (int64_t segments : {int64_t(1), kSegments})
          ASSERT_LE(segments * countOnDevice(length, begin, jagged),
                    single_pass_outer::countNumbers(segments * length, segments,
                                                    jagged))
              << segments << " of " << length << " rows that begin in row "
              << begin;
      }
}

TEST(SinglePassModelsTest, NumbersOnTheHostAreThoseOfTheCompiler) {
  HostSizes sizes;
  for (int i = 0; i < 1000; ++i) {
    int64_t rows = sizes.draw(1 << 20), segments = sizes.draw(300);
    for (bool jagged : {false, true})
      EXPECT_EQ(single_pass_outer::countNumbers(
                    sizes.getKnown(rows), sizes.getKnown(segments), jagged)
                    .getKnown(),
                single_pass_outer::countNumbers(rows, segments, jagged));
  }
  EXPECT_EQ(sizes.countOperations(), 0);
}

} // namespace
