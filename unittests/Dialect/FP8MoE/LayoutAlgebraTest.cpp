//===- LayoutAlgebraTest.cpp - Arithmetic on layouts ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

constexpr int64_t kDynamic = ShapedType::kDynamic;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
using Sizes = SmallVector<int64_t>;

class LayoutAlgebra : public ::testing::Test {
protected:
  LayoutAlgebra() { context.loadDialect<FP8MoEDialect>(); }

  RankedTensorType type(StringRef text) {
    return cast<RankedTensorType>(parseType(text, &context));
  }

  StridedLayout layout(StringRef text) {
    return *StridedLayout::get(type(text));
  }

  /// Returns the type of `input` reshaped to `shape`, or null if bytes would
  /// move.
  RankedTensorType reshape(StringRef input, ArrayRef<int64_t> shape) {
    RankedTensorType source = type(input);
    std::optional<StridedLayout> result =
        reshapeLayout(*StridedLayout::get(source), source.getShape(), shape);
    if (!result)
      return {};
    return result->getType(shape, source.getElementType());
  }

  /// Returns the runs of a reshape as (input dimensions, result dimensions).
  std::optional<SmallVector<std::pair<int64_t, int64_t>>>
  runs(ArrayRef<int64_t> input, ArrayRef<int64_t> result) {
    std::optional<SmallVector<ReshapeRun>> found = matchReshape(input, result);
    if (!found)
      return std::nullopt;
    SmallVector<std::pair<int64_t, int64_t>> counts;
    for (const ReshapeRun &run : *found)
      counts.emplace_back(run.inputEnd - run.inputBegin,
                          run.resultEnd - run.resultBegin);
    return counts;
  }

  MLIRContext context;
};

using Runs = SmallVector<std::pair<int64_t, int64_t>>;

//===----------------------------------------------------------------------===//
// Permutations
//===----------------------------------------------------------------------===//

TEST_F(LayoutAlgebra, RecognizesPermutations) {
  EXPECT_TRUE(isPermutation({}));
  EXPECT_TRUE(isPermutation({2, 0, 1}));
  EXPECT_FALSE(isPermutation({0, 0}));
  EXPECT_FALSE(isPermutation({0, 2}));
  EXPECT_FALSE(isPermutation({-1, 0}));
  EXPECT_FALSE(isPermutation({kDynamic}));
  EXPECT_EQ(identityPermutation(3), Sizes({0, 1, 2}));
  EXPECT_EQ(identityPermutation(0), Sizes());
}

TEST_F(LayoutAlgebra, InvertsPermutations) {
  EXPECT_EQ(invertPermutation({2, 0, 1}), Sizes({1, 2, 0}));
  EXPECT_EQ(composePermutations({2, 0, 1}, invertPermutation({2, 0, 1})),
            identityPermutation(3));
}

TEST_F(LayoutAlgebra, ComposesPermutationsLikeTransposes) {
  Sizes shape = {4, 5, 6}, first = {1, 2, 0}, second = {2, 1, 0};
  EXPECT_EQ(permute(permute(shape, first), second),
            permute(shape, composePermutations(first, second)));
}

TEST_F(LayoutAlgebra, PermutesOrdersWithTheirDimensions) {
  // Row-major [E, K, N] viewed as [E, N, K] is column-major per expert.
  EXPECT_EQ(permuteOrder({0, 1, 2}, {0, 2, 1}), Sizes({0, 2, 1}));
  // Orders permute as strides do. The view's outermost dimension is the
  // source's outermost one.
  Sizes shape = {4, 5, 6}, order = {2, 0, 1}, permutation = {1, 2, 0};
  EXPECT_EQ(permute(computeStrides(shape, order), permutation),
            computeStrides(permute(shape, permutation),
                           permuteOrder(order, permutation)));
}

//===----------------------------------------------------------------------===//
// Sizes and strides
//===----------------------------------------------------------------------===//

TEST_F(LayoutAlgebra, UnknownOrTooLargeSizesAreUnknown) {
  EXPECT_EQ(addSizes(2, 3), 5);
  EXPECT_EQ(addSizes(2, kDynamic), kDynamic);
  EXPECT_EQ(addSizes(kMax, 1), kDynamic);
  EXPECT_EQ(multiplySizes(2, 3), 6);
  EXPECT_EQ(multiplySizes(kDynamic, 0), kDynamic);
  EXPECT_EQ(multiplySizes(kMax, 2), kDynamic);
  EXPECT_EQ(ceilDivSizes(65, 32), 3);
  EXPECT_EQ(ceilDivSizes(64, 32), 2);
  EXPECT_EQ(ceilDivSizes(0, 32), 0);
  EXPECT_EQ(ceilDivSizes(kDynamic, 32), kDynamic);
  EXPECT_EQ(ceilDivSizes(1, 0), kDynamic);
  EXPECT_EQ(ceilDivSizes(kMax, 2), kMax / 2 + 1);
}

TEST_F(LayoutAlgebra, PaddedExtentFitsEveryGrouping) {
  EXPECT_EQ(paddedExtent(100, 8, 16), 224);
  EXPECT_EQ(paddedExtent(0, 1, 128), 128);
  EXPECT_EQ(paddedExtent(128, 1, 128), 256);
  EXPECT_EQ(paddedExtent(kDynamic, 8, 16), kDynamic);
  EXPECT_EQ(paddedExtent(100, kDynamic, 16), kDynamic);
  EXPECT_EQ(paddedExtent(kMax, 8, 16), kDynamic);
}

TEST_F(LayoutAlgebra, StridesFollowShapeAndOrder) {
  EXPECT_EQ(computeStrides({4, 5, 6}, {0, 1, 2}), Sizes({30, 6, 1}));
  EXPECT_EQ(computeStrides({4, 5, 6}, {0, 2, 1}), Sizes({30, 1, 5}));
  EXPECT_EQ(computeStrides({4, kDynamic, 6}, {0, 1, 2}),
            Sizes({kDynamic, 6, 1}));
  EXPECT_EQ(computeStrides({4, kDynamic, 6}, {1, 0, 2}), Sizes({6, 24, 1}));
  // An empty dimension counts as 1 in strides.
  EXPECT_EQ(computeStrides({4, 0, 6}, {0, 1, 2}), Sizes({6, 6, 1}));
  EXPECT_EQ(computeStrides({2, kMax, 2}, {0, 1, 2}), Sizes({kDynamic, 2, 1}));
  EXPECT_EQ(computeStrides({}, {}), Sizes());
}

TEST_F(LayoutAlgebra, ElementBytes) {
  auto bytes = [&](StringRef text) {
    return getElementBytes(parseType(text, &context));
  };
  EXPECT_EQ(bytes("bf16"), 2);
  EXPECT_EQ(bytes("i1"), 1);
  EXPECT_EQ(bytes("f8E8M0FNU"), 1);
  EXPECT_EQ(bytes("!fp8moe.e4m3"), 1);
  EXPECT_EQ(bytes("!fp8moe.e5m2"), 1);
  EXPECT_EQ(bytes("index"), std::nullopt);
}

//===----------------------------------------------------------------------===//
// StridedLayout
//===----------------------------------------------------------------------===//

TEST_F(LayoutAlgebra, ReadsTheLayoutOfATensor) {
  StridedLayout dense = layout("tensor<?x8xf32>");
  EXPECT_TRUE(dense.dense);
  EXPECT_EQ(dense.order, Sizes({0, 1}));
  EXPECT_EQ(dense.strides, Sizes({8, 1}));
  EXPECT_EQ(dense.align, 0);
  EXPECT_TRUE(dense.isContiguousAlong(1));
  EXPECT_FALSE(dense.isContiguousAlong(0));

  StridedLayout column =
      layout("tensor<?x8xf32, #fp8moe.strided<[1, 0], align = 16, "
             "groups<dim = 0, pad = 4>>>");
  EXPECT_TRUE(column.dense);
  EXPECT_EQ(column.strides, Sizes({1, kDynamic}));
  EXPECT_EQ(column.align, 16);
  EXPECT_EQ(column.groups, GroupPaddingAttr::get(&context, 0, 4));

  StridedLayout pitched =
      layout("tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>");
  EXPECT_FALSE(pitched.dense);
  EXPECT_EQ(pitched.strides, Sizes({kDynamic, 1}));

  EXPECT_FALSE(
      StridedLayout::get(type("tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>")));
}

TEST_F(LayoutAlgebra, StridesThatAreDenseAreDense) {
  EXPECT_TRUE(
      layout("tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, 1]>>")
          .dense);
  // The outermost size does not affect density.
  EXPECT_TRUE(
      layout("tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [8, 1]>>")
          .dense);
  // The stride of a single row does not affect density.
  StridedLayout oneRow =
      layout("tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>");
  EXPECT_TRUE(oneRow.dense);
  EXPECT_EQ(oneRow.strides, Sizes({8, 1}));
  // A dynamic size may differ from a dynamic stride.
  EXPECT_FALSE(
      layout("tensor<4x?xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>")
          .dense);
  EXPECT_FALSE(
      layout("tensor<4x?xf32, #fp8moe.strided<[0, 1], strides = [8, 1]>>")
          .dense);
}

TEST_F(LayoutAlgebra, DenseRowMajorIgnoresDimensionsOfSizeOne) {
  auto isDenseRowMajor = [&](StringRef text) {
    return layout(text).isDenseRowMajor(type(text).getShape());
  };
  EXPECT_TRUE(isDenseRowMajor("tensor<f32>"));
  EXPECT_TRUE(isDenseRowMajor("tensor<?x?xf32>"));
  EXPECT_TRUE(isDenseRowMajor("tensor<?x1xf32, #fp8moe.strided<[1, 0]>>"));
  EXPECT_FALSE(isDenseRowMajor("tensor<?x2xf32, #fp8moe.strided<[1, 0]>>"));
  EXPECT_FALSE(isDenseRowMajor(
      "tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>"));
  EXPECT_FALSE(isDenseRowMajor(
      "tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>>"));
}

TEST_F(LayoutAlgebra, ComparesLayoutsByPlace) {
  auto same = [&](StringRef a, StringRef b) {
    return haveSameLayout(type(a), type(b));
  };
  // Spelling and alignment do not move elements.
  EXPECT_TRUE(same("tensor<4x8xf32>",
                   "tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, 1], "
                   "align = 32>>"));
  EXPECT_TRUE(
      same("tensor<?x1xf32>", "tensor<?x1xf32, #fp8moe.strided<[1, 0]>>"));
  EXPECT_TRUE(
      same("tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [99, 2]>>",
           "tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 2]>>"));
  // Order, strides, padding, shape and element type do.
  EXPECT_FALSE(
      same("tensor<?x8xf32>", "tensor<?x8xf32, #fp8moe.strided<[1, 0]>>"));
  EXPECT_FALSE(
      same("tensor<4x8xf32>",
           "tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>>"));
  EXPECT_FALSE(same(
      "tensor<4x8xf32>",
      "tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>"));
  EXPECT_FALSE(same("tensor<4x8xf32>", "tensor<?x8xf32>"));
  EXPECT_FALSE(same("tensor<4x8xf32>", "tensor<4x8xi32>"));
  // Two dynamic strides may differ.
  EXPECT_FALSE(
      same("tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>",
           "tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1], "
           "align = 16>>"));
  EXPECT_FALSE(
      same("tensor<4x8xi8>", "tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>"));
}

TEST_F(LayoutAlgebra, EncodesInTheShortestSpelling) {
  auto encode = [&](StringRef text) {
    RankedTensorType tensor = type(text);
    return StridedLayout::get(tensor)->getType(tensor.getShape(),
                                               tensor.getElementType());
  };
  EXPECT_EQ(
      encode("tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, 1]>>"),
      type("tensor<4x8xf32>"));
  EXPECT_EQ(
      encode("tensor<4x8xf32, #fp8moe.strided<[1, 0], strides = [1, 4]>>"),
      type("tensor<4x8xf32, #fp8moe.strided<[1, 0]>>"));
  StringRef kept = "tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 2], "
                   "align = 16, groups<dim = 0, pad = 4>>>";
  EXPECT_EQ(encode(kept), type(kept));
}

TEST_F(LayoutAlgebra, TransposedLayoutsFollowTheirDimensions) {
  StridedLayout view = transposeLayout(
      layout("tensor<?x8x6xf32, #fp8moe.strided<[0, 1, 2], "
             "strides = [?, 12, 2], groups<dim = 1, pad = 4>>>"),
      {2, 0, 1});
  EXPECT_EQ(view.order, Sizes({1, 2, 0}));
  EXPECT_EQ(view.strides, Sizes({2, kDynamic, 12}));
  EXPECT_EQ(view.groups, GroupPaddingAttr::get(&context, 2, 4));
}

TEST_F(LayoutAlgebra, BuffersHaveTheStridesOfTheLayout) {
  auto buffer = [&](StringRef text) { return getBufferType(type(text)); };
  auto memref = [&](StringRef text) {
    return cast<MemRefType>(parseType(text, &context));
  };
  EXPECT_EQ(buffer("tensor<?x8xf32>"), memref("memref<?x8xf32>"));
  EXPECT_EQ(buffer("tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 32, "
                   "groups<dim = 0, pad = 4>>>"),
            memref("memref<?x8xf32>"));
  EXPECT_EQ(buffer("tensor<?x8xf32, #fp8moe.strided<[1, 0]>>"),
            memref("memref<?x8xf32, strided<[1, ?]>>"));
  EXPECT_EQ(
      buffer("tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 2]>>"),
      memref("memref<4x8xf32, strided<[?, 2]>>"));
  // 200 x 5 scales take 2 x 2 tiles of 512 bytes.
  EXPECT_EQ(buffer("tensor<200x5xi8, #fp8moe.scale_blocked<128x4>>"),
            memref("memref<2048xi8>"));
  EXPECT_EQ(buffer("tensor<3x200x5xi8, #fp8moe.scale_blocked<128x4>>"),
            memref("memref<6144xi8>"));
  EXPECT_EQ(buffer("tensor<?x5xi8, #fp8moe.scale_blocked<128x4>>"),
            memref("memref<?xi8>"));
}

TEST_F(LayoutAlgebra, BaseAlignmentIsAtLeastAnElement) {
  EXPECT_EQ(getBaseAlignment(type("tensor<4xf32>")), 4);
  EXPECT_EQ(getBaseAlignment(type("tensor<4x!fp8moe.e4m3>")), 1);
  EXPECT_EQ(
      getBaseAlignment(type("tensor<4xf32, #fp8moe.strided<[0], align = 2>>")),
      4);
  EXPECT_EQ(
      getBaseAlignment(type("tensor<4xf32, #fp8moe.strided<[0], align = 64>>")),
      64);
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

TEST_F(LayoutAlgebra, MatchesMergesAndSplits) {
  EXPECT_EQ(runs({8, 4, 6}, {32, 6}), Runs({{2, 1}, {1, 1}}));
  EXPECT_EQ(runs({32, 6}, {8, 4, 6}), Runs({{1, 2}, {1, 1}}));
  EXPECT_EQ(runs({kDynamic, 6}, {kDynamic, 4, 6}), Runs({{1, 2}, {1, 1}}));
  EXPECT_EQ(runs({kDynamic, 4, 6}, {kDynamic, 6}), Runs({{2, 1}, {1, 1}}));
  EXPECT_EQ(runs({4, 6}, {24}), Runs({{2, 1}}));
  EXPECT_EQ(runs({4}, {1, 4, 1}), Runs({{1, 3}}));
  EXPECT_EQ(runs({1, 4, 1}, {4}), Runs({{3, 1}}));
  EXPECT_EQ(runs({0, 5}, {0}), Runs({{2, 1}}));
  EXPECT_EQ(runs({}, {}), Runs());
}

TEST_F(LayoutAlgebra, RefusesOtherReshapes) {
  EXPECT_EQ(runs({4, 6}, {3, 8}), std::nullopt);
  EXPECT_EQ(runs({4, 6}, {25}), std::nullopt);
  EXPECT_EQ(runs({kDynamic}, {kDynamic, kDynamic}), std::nullopt);
  EXPECT_EQ(runs({kDynamic, 4}, {8}), std::nullopt);
  EXPECT_EQ(runs({24}, {kDynamic, 6}), std::nullopt);
  EXPECT_EQ(runs({}, {1}), std::nullopt);
  EXPECT_EQ(runs({kDynamic}, {kDynamic, kMax, kMax}), std::nullopt);
}

TEST_F(LayoutAlgebra, MatchesTheLeftmostShortestRuns) {
  EXPECT_EQ(runs({kDynamic, 4, kDynamic}, {kDynamic, kDynamic}),
            Runs({{1, 1}, {2, 1}}));
}

TEST_F(LayoutAlgebra, TwoUnknownSizesCanBeAmbiguous) {
  EXPECT_TRUE(
      isAmbiguousReshape({kDynamic, 4, kDynamic}, {kDynamic, kDynamic}));
  EXPECT_TRUE(
      isAmbiguousReshape({kDynamic, kDynamic}, {3, kDynamic, 4, kDynamic}));
  EXPECT_FALSE(isAmbiguousReshape({kDynamic, kDynamic}, {kDynamic, kDynamic}));
  EXPECT_FALSE(
      isAmbiguousReshape({kDynamic, kDynamic, 8}, {kDynamic, kDynamic, 2, 4}));
  EXPECT_FALSE(isAmbiguousReshape({kDynamic, 4, 8}, {kDynamic, 8}));
  // A dimension of size 1 does not make a reshape ambiguous.
  EXPECT_FALSE(
      isAmbiguousReshape({kDynamic, 1, kDynamic}, {kDynamic, kDynamic}));
  EXPECT_FALSE(
      isAmbiguousReshape({kDynamic, kDynamic}, {1, kDynamic, 1, kDynamic}));
}

TEST_F(LayoutAlgebra, ReshapesAreUniqueWithOneUnknownSize) {
  EXPECT_TRUE(hasUniqueReshape({kDynamic, 4, 6}));
  EXPECT_TRUE(hasUniqueReshape({}));
  EXPECT_FALSE(hasUniqueReshape({kDynamic, 4, kDynamic}));
  EXPECT_FALSE(hasUniqueReshape({kDynamic, 0}));
}

TEST_F(LayoutAlgebra, ReshapesExpertsToRowsAndBack) {
  EXPECT_EQ(reshape("tensor<64x32x8xf32>", {2048, 8}),
            type("tensor<2048x8xf32>"));
  EXPECT_EQ(reshape("tensor<2048x8xf32>", {64, 32, 8}),
            type("tensor<64x32x8xf32>"));
  // With each expert column-major, rows of different experts are not adjacent.
  EXPECT_EQ(
      reshape("tensor<64x32x8xf32, #fp8moe.strided<[0, 2, 1]>>", {2048, 8}),
      RankedTensorType());
  // Experts and columns are adjacent in this order.
  EXPECT_EQ(
      reshape("tensor<8x64x32xf32, #fp8moe.strided<[1, 2, 0]>>", {8, 2048}),
      type("tensor<8x2048xf32, #fp8moe.strided<[1, 0]>>"));
}

TEST_F(LayoutAlgebra, ReshapesKeepTheOrderOfMemory) {
  EXPECT_EQ(
      reshape("tensor<12x?xf32, #fp8moe.strided<[1, 0]>>", {3, 4, kDynamic}),
      type("tensor<3x4x?xf32, #fp8moe.strided<[2, 0, 1]>>"));
  EXPECT_EQ(
      reshape("tensor<3x4x?xf32, #fp8moe.strided<[2, 0, 1]>>", {12, kDynamic}),
      type("tensor<12x?xf32, #fp8moe.strided<[1, 0]>>"));
}

TEST_F(LayoutAlgebra, ReshapesExplicitStrides) {
  EXPECT_EQ(reshape("tensor<4x8x5xf32, #fp8moe.strided<[0, 1, 2], "
                    "strides = [128, 16, 2]>>",
                    {32, 5}),
            type("tensor<32x5xf32, #fp8moe.strided<[0, 1], "
                 "strides = [16, 2]>>"));
  EXPECT_EQ(reshape("tensor<32x5xf32, #fp8moe.strided<[0, 1], "
                    "strides = [16, 2]>>",
                    {4, 8, 5}),
            type("tensor<4x8x5xf32, #fp8moe.strided<[0, 1, 2], "
                 "strides = [128, 16, 2]>>"));
  // Each expert is followed by a gap, or may be.
  EXPECT_EQ(reshape("tensor<4x8x5xf32, #fp8moe.strided<[0, 1, 2], "
                    "strides = [256, 16, 2]>>",
                    {32, 5}),
            RankedTensorType());
  EXPECT_EQ(reshape("tensor<4x8x5xf32, #fp8moe.strided<[0, 1, 2], "
                    "strides = [?, 16, 2]>>",
                    {32, 5}),
            RankedTensorType());
}

TEST_F(LayoutAlgebra, ReshapedStridesAreLegal) {
  // Dimensions of size 1 get strides that do not decrease outwards.
  EXPECT_EQ(reshape("tensor<4x8xf32, #fp8moe.strided<[0, 1], "
                    "strides = [32, 2]>>",
                    {1, 4, 1, 8}),
            type("tensor<1x4x1x8xf32, #fp8moe.strided<[0, 1, 2, 3], "
                 "strides = [128, 32, 16, 2]>>"));
  EXPECT_EQ(reshape("tensor<1x?x8xf32, #fp8moe.strided<[0, 1, 2], "
                    "strides = [?, ?, 2]>>",
                    {1, kDynamic, 8}),
            type("tensor<1x?x8xf32, #fp8moe.strided<[0, 1, 2], "
                 "strides = [?, ?, 2]>>"));
  // The outer stride of a split would depend on the dynamic size.
  EXPECT_EQ(reshape("tensor<?x48xf32, #fp8moe.strided<[0, 1], "
                    "strides = [64, 1]>>",
                    {8, kDynamic, 48}),
            RankedTensorType());
  EXPECT_EQ(reshape("tensor<?x48xf32, #fp8moe.strided<[0, 1], "
                    "strides = [64, 1]>>",
                    {kDynamic, 8, 48}),
            type("tensor<?x8x48xf32, #fp8moe.strided<[0, 1, 2], "
                 "strides = [512, 64, 1]>>"));
  // Empty dimensions count as 1.
  EXPECT_EQ(
      reshape("tensor<0xf32, #fp8moe.strided<[0], strides = [2]>>", {0, 0}),
      type("tensor<0x0xf32, #fp8moe.strided<[0, 1], strides = [2, 2]>>"));
}

TEST_F(LayoutAlgebra, AlignmentSurvivesWherePitchesAreMultiples) {
  auto align = [&](StringRef input, ArrayRef<int64_t> shape) {
    RankedTensorType source = type(input);
    return reshapeLayout(*StridedLayout::get(source), source.getShape(), shape)
        ->align;
  };
  StringRef aligned = "tensor<8x?xbf16, #fp8moe.strided<[0, 1], align = 16>>";
  EXPECT_EQ(align(aligned, {2, 4, kDynamic}), 16);
  EXPECT_EQ(align(aligned, {8, kDynamic, 4}), 16);
  // The pitch would be a fourth of the dynamic size.
  EXPECT_EQ(align(aligned, {8, 4, kDynamic}), 0);
  // A dynamic stride of the innermost dimension is no pitch.
  EXPECT_EQ(align("tensor<8x16xbf16, #fp8moe.strided<[0, 1], strides = [?, ?], "
                  "align = 16>>",
                  {8, 4, 4}),
            0);
}

TEST_F(LayoutAlgebra, PaddedGroupsCannotBeReshaped) {
  EXPECT_EQ(reshape("tensor<8x4xf32, #fp8moe.strided<[0, 1], "
                    "groups<dim = 0, pad = 2>>>",
                    {32}),
            RankedTensorType());
}

} // namespace
