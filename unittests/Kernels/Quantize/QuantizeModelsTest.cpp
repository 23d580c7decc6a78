//===- QuantizeModelsTest.cpp - What the host counts as the compiler ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Quantize/RegisterResident/RegisterResidentTiles.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

#include "Model/HostSizes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

TEST(QuantizeModelsTest, MeanLengthsOnTheHostAreThoseOfTheCompiler) {
  HostSizes sizes;
  for (int i = 0; i < 1000; ++i)
    for (bool jagged : {false, true}) {
      int64_t rows = sizes.draw(1 << 20) - 1, segments = sizes.draw(300);
      EXPECT_EQ(computeMeanLength(jagged, sizes.getKnown(rows),
                                  sizes.getKnown(segments))
                    .getKnown(),
                computeMeanLength(jagged, rows, segments));
    }
  EXPECT_EQ(sizes.countOperations(), 0);
  EXPECT_EQ(computeMeanLength<int64_t>(/*jagged=*/true, 17, 4), 5);
  EXPECT_EQ(computeMeanLength<int64_t>(/*jagged=*/false, 17, 4), 17);
}

/// Returns tensors of experts 4 x rows 100 x columns 32, quantized along the
/// rows.
static QuantizeTensors<int64_t> getExperts() {
  static constexpr int64_t kSizes[] = {4, 100, 32};
  static constexpr int64_t kInput[] = {3200, 32, 1};
  static constexpr int64_t kOutput[] = {3200, 1, 100};
  static constexpr int64_t kScales[] = {32, 1};
  return {0, 1, kSizes, kInput, kOutput, kScales, std::nullopt};
}

TEST(QuantizeModelsTest, SizesOfAQuantization) {
  QuantizeTensors<int64_t> tensors = getExperts();
  QuantizeSizes<int64_t> sizes =
      getQuantizeSizes(tensors, /*axis=*/1, QuantizeDims{0, 2});
  EXPECT_EQ(sizes.segments, 4);
  EXPECT_EQ(sizes.reduction, 100);
  EXPECT_EQ(sizes.parallel, 32);
  EXPECT_EQ(sizes.extent, 0);
  EXPECT_EQ(sizes.inSegment, 3200);
  EXPECT_EQ(sizes.inReduction, 32);
  EXPECT_EQ(sizes.inParallel, 1);
  EXPECT_EQ(sizes.outReduction, 1);
  EXPECT_EQ(sizes.outParallel, 100);
  // Scales have no dimension of rows.
  EXPECT_EQ(sizes.scaleSegment, 32);
  EXPECT_EQ(sizes.scaleParallel, 1);

  // `scale` has no output strides. A single slice only has its rows.
  tensors.outputStrides = {};
  sizes = getQuantizeSizes(tensors, /*axis=*/1, QuantizeDims());
  EXPECT_EQ(sizes.segments, 1);
  EXPECT_EQ(sizes.parallel, 1);
  EXPECT_EQ(sizes.inParallel, 0);
  EXPECT_EQ(sizes.outReduction, 0);
  EXPECT_EQ(sizes.scaleParallel, 0);
}

TEST(QuantizeModelsTest, GroupsTakeThePlaceOfSegments) {
  static constexpr int64_t kSizes[] = {1000, 32};
  static constexpr int64_t kStrides[] = {32, 1};
  QuantizeTensors<int64_t> tensors{0,        1,        kSizes, kStrides,
                                   kStrides, kStrides, 8};
  QuantizeSizes<int64_t> sizes =
      getQuantizeSizes(tensors, /*axis=*/0, QuantizeDims{std::nullopt, 1});
  EXPECT_EQ(sizes.segments, 8);
  EXPECT_EQ(sizes.inSegment, 0);
  EXPECT_EQ(sizes.scaleSegment, 32);
  EXPECT_EQ(sizes.scaleParallel, 1);
}

TEST(QuantizeModelsTest, SizesOnTheHostAreThoseOfTheCompiler) {
  MLIRContext context;
  auto toHost = [&](ArrayRef<int64_t> numbers) {
    return getAsIndexOpFoldResult(&context, numbers);
  };
  QuantizeTensors<int64_t> tensors = getExperts();
  SmallVector<OpFoldResult> extents = toHost(tensors.sizes),
                            input = toHost(tensors.inputStrides),
                            output = toHost(tensors.outputStrides),
                            scales = toHost(tensors.scaleStrides);
  for (QuantizeDims dims : {QuantizeDims{0, 2}, QuantizeDims{2, 0},
                            QuantizeDims{std::nullopt, 2}, QuantizeDims()}) {
    QuantizeTensors<OpFoldResult> ofHost{
        toHost({0})[0], toHost({1})[0], extents,     input,
        output,         scales,         std::nullopt};
    QuantizeSizes<int64_t> known = getQuantizeSizes(tensors, /*axis=*/1, dims);
    QuantizeSizes<OpFoldResult> sizes =
        getQuantizeSizes(ofHost, /*axis=*/1, dims);
    for (auto [from, to] :
         llvm::zip_equal(QuantizeSizes<OpFoldResult>::members(),
                         QuantizeSizes<int64_t>::members()))
      EXPECT_EQ(getConstantIntValue(sizes.*from), known.*to);
  }
}

class QuantizeTileModelsTest : public testing::Test {
protected:
  QuantizeTileModelsTest() { context.loadDialect<FP8MoEDialect>(); }

  TwoPassTileAttr getTwoPass(int64_t columns) {
    return TwoPassTileAttr::get(&context, columns, /*threads=*/256);
  }
  RegisterResidentTileAttr getResident(int64_t columns) {
    return RegisterResidentTileAttr::get(&context, columns, /*threads=*/256,
                                         /*chunks=*/1, /*rounds=*/4,
                                         /*blocks=*/1);
  }

  MLIRContext context;
};

TEST_F(QuantizeTileModelsTest, WorkTilesOnTheHostAreThoseOfTheCompiler) {
  HostSizes sizes;
  for (int i = 0; i < 1000; ++i)
    for (bool withRemainder : {false, true}) {
      QuantizeKind kind = i % 3 ? QuantizeKind::Inner : QuantizeKind::Outer;
      int64_t perBlock = int64_t(1) << (i % 7);
      int64_t segments = sizes.draw(300), columns = sizes.draw(1 << 15);
      auto expectSame = [&](auto count) {
        EXPECT_EQ(
            count(sizes.getKnown(segments), sizes.getKnown(columns)).getKnown(),
            count(segments, columns));
      };
      expectSame([&](auto segments, auto columns) {
        return two_pass::countWorkTiles(getTwoPass(perBlock), kind, segments,
                                        columns, withRemainder);
      });
      expectSame([&](auto segments, auto columns) {
        return register_resident::countWorkTiles(
            getResident(perBlock), segments, columns, withRemainder);
      });
    }
  EXPECT_EQ(sizes.countOperations(), 0);
}

TEST_F(QuantizeTileModelsTest, RemainderRowsAreOneMoreSegment) {
  auto count = [&](QuantizeKind kind, int64_t columns, bool withRemainder) {
    return two_pass::countWorkTiles<int64_t>(getTwoPass(columns), kind,
                                             /*segments=*/3, /*columns=*/1000,
                                             withRemainder);
  };
  EXPECT_EQ(count(QuantizeKind::Outer, 64, false), 3 * 16);
  EXPECT_EQ(count(QuantizeKind::Outer, 64, true), 4 * 16);
  EXPECT_EQ(count(QuantizeKind::Inner, 8, false), 375);
  EXPECT_EQ(count(QuantizeKind::Inner, 8, true), 500);
  // Remainder rows are only zeroed, so a work tile has many of their columns.
  auto countResident = [&](bool withRemainder) {
    return register_resident::countWorkTiles<int64_t>(
        getResident(8), /*segments=*/3, /*columns=*/1000, withRemainder);
  };
  EXPECT_EQ(countResident(false), 3 * 32);
  EXPECT_EQ(countResident(true), 3 * 32 + 2);
}
