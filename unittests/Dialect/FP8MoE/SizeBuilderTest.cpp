//===- SizeBuilderTest.cpp - Arithmetic on sizes --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class SizeBuilderTest : public ::testing::Test {
protected:
  SizeBuilderTest() : builder(&context), loc(builder.getUnknownLoc()) {
    context.loadDialect<FP8MoEDialect, arith::ArithDialect>();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    unknown = module->getBody()->addArgument(builder.getIndexType(), loc);
  }

  RankedTensorType type(StringRef text) {
    return cast<RankedTensorType>(parseType(text, &context));
  }

  /// Returns sizes as numbers. Non-constants are kDynamic.
  SmallVector<int64_t> constants(ArrayRef<OpFoldResult> sizes) {
    return llvm::map_to_vector(sizes, [](OpFoldResult size) {
      return getConstantIntValue(size).value_or(ShapedType::kDynamic);
    });
  }

  /// Returns the number of created operations other than constants.
  int64_t numOperations() {
    return llvm::count_if(*module->getBody(), [](Operation &op) {
      return !isa<arith::ConstantOp>(op);
    });
  }

  MLIRContext context;
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
  Value unknown;
};

TEST_F(SizeBuilderTest, FoldsConstants) {
  SizeBuilder size(builder, loc);
  auto c = [&](int64_t value) { return size.constant(value); };
  EXPECT_EQ(
      constants({size.add(c(2), c(3)), size.mul(c(2), c(3)), size.div(c(7), 2),
                 size.rem(c(7), 4), size.ceilDiv(c(65), 32),
                 size.ceilDiv(c(0), 32), size.paddedExtent(c(100), c(8), 16)}),
      SmallVector<int64_t>({5, 6, 3, 3, 3, 0, 224}));
  EXPECT_TRUE(module->getBody()->empty());
}

TEST_F(SizeBuilderTest, MultiplyingOrDividingByOneIsFree) {
  SizeBuilder size(builder, loc);
  EXPECT_EQ(size.mul(unknown, size.constant(1)), OpFoldResult(unknown));
  EXPECT_EQ(size.mul(size.constant(1), unknown), OpFoldResult(unknown));
  EXPECT_EQ(size.div(unknown, 1), OpFoldResult(unknown));
  EXPECT_TRUE(module->getBody()->empty());
}

TEST_F(SizeBuilderTest, CreatesOperationsOnUnknownSizes) {
  SizeBuilder size(builder, loc);
  auto defines = [](OpFoldResult result) {
    return cast<Value>(result).getDefiningOp();
  };
  EXPECT_TRUE(isa<arith::AddIOp>(defines(size.add(unknown, size.constant(2)))));
  EXPECT_TRUE(isa<arith::MulIOp>(defines(size.mul(size.constant(2), unknown))));
  EXPECT_TRUE(isa<arith::DivSIOp>(defines(size.div(unknown, 2))));
  EXPECT_TRUE(isa<arith::RemSIOp>(defines(size.rem(unknown, 2))));
  EXPECT_TRUE(isa<arith::CeilDivSIOp>(defines(size.ceilDiv(unknown, 2))));
}

TEST_F(SizeBuilderTest, DoesNotFoldOverflow) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  SizeBuilder size(builder, loc);
  EXPECT_EQ(
      getConstantIntValue(size.add(size.constant(most), size.constant(1))),
      std::nullopt);
  EXPECT_EQ(
      getConstantIntValue(size.mul(size.constant(most), size.constant(2))),
      std::nullopt);
}

TEST_F(SizeBuilderTest, AsksForUnknownDimensionsOnly) {
  SmallVector<int64_t> asked;
  auto getDim = [&](TypedValue<RankedTensorType>, int64_t i) -> OpFoldResult {
    asked.push_back(i);
    return unknown;
  };
  auto tensor = cast<TypedValue<RankedTensorType>>(
      module->getBody()->addArgument(type("tensor<4x?x8xf32>"), loc));
  SizeBuilder size(builder, loc, getDim);
  SmallVector<OpFoldResult> shape = size.shape(tensor);
  EXPECT_EQ(constants(shape),
            SmallVector<int64_t>({4, ShapedType::kDynamic, 8}));
  EXPECT_EQ(shape[1], OpFoldResult(unknown));
  EXPECT_EQ(asked, SmallVector<int64_t>({1}));
}

TEST_F(SizeBuilderTest, DenseStridesFollowTheOrder) {
  SizeBuilder size(builder, loc);
  SmallVector<OpFoldResult> sizes = {size.constant(4), size.constant(5),
                                     size.constant(6)};
  auto strides = [&](StringRef text) {
    return constants(size.denseStrides(type(text), sizes));
  };
  EXPECT_EQ(strides("tensor<4x5x6xf32>"), SmallVector<int64_t>({30, 6, 1}));
  EXPECT_EQ(strides("tensor<4x5x6xf32, #fp8moe.strided<[0, 2, 1]>>"),
            SmallVector<int64_t>({30, 1, 5}));
  EXPECT_EQ(strides("tensor<?x?x?xf32, #fp8moe.strided<[2, 1, 0]>>"),
            SmallVector<int64_t>({1, 4, 20}));
  EXPECT_TRUE(size.denseStrides(type("tensor<f32>"), {}).empty());
}

TEST_F(SizeBuilderTest, EmptyDimensionsCountAsOneInStrides) {
  SizeBuilder size(builder, loc);
  SmallVector<OpFoldResult> sizes = {size.constant(4), size.constant(0),
                                     size.constant(6)};
  EXPECT_EQ(constants(size.denseStrides(type("tensor<4x0x6xf32>"), sizes)),
            SmallVector<int64_t>({6, 6, 1}));

  // The outermost size is not needed. An inner one is compared with 1.
  SmallVector<OpFoldResult> unknownRows = {unknown, size.constant(8)};
  EXPECT_EQ(constants(size.denseStrides(type("tensor<?x8xf32>"), unknownRows)),
            SmallVector<int64_t>({8, 1}));
  EXPECT_EQ(numOperations(), 0);
  SmallVector<OpFoldResult> strides = size.denseStrides(
      type("tensor<?x8xf32, #fp8moe.strided<[1, 0]>>"), unknownRows);
  ASSERT_TRUE(isa<Value>(strides[1]));
  auto max = cast<Value>(strides[1]).getDefiningOp<arith::MaxSIOp>();
  ASSERT_TRUE(max);
  EXPECT_EQ(max.getLhs(), unknown);
  EXPECT_EQ(getConstantIntValue(max.getRhs()), 1);
  EXPECT_EQ(numOperations(), 1);
}

TEST_F(SizeBuilderTest, BufferSizesOfBlockedScalesAreWholeTiles) {
  SizeBuilder size(builder, loc);
  auto sizesOf = [&](StringRef text, ArrayRef<int64_t> shape) {
    auto sizes = llvm::map_to_vector(
        shape, [&](int64_t extent) { return size.constant(extent); });
    return constants(size.bufferSizes(type(text), sizes));
  };
  EXPECT_EQ(sizesOf("tensor<?x?xi8, #fp8moe.scale_blocked<128x4>>", {200, 5}),
            SmallVector<int64_t>({2048}));
  EXPECT_EQ(
      sizesOf("tensor<?x?x?xi8, #fp8moe.scale_blocked<128x4>>", {3, 200, 5}),
      SmallVector<int64_t>({6144}));
  EXPECT_EQ(sizesOf("tensor<?x5xf32, #fp8moe.strided<[1, 0]>>", {200, 5}),
            SmallVector<int64_t>({200, 5}));
}

} // namespace
