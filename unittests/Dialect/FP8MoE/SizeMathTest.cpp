//===- SizeMathTest.cpp - Models of the compiler and of the host plan -----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

#include <limits>
#include <random>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class SizeMathTest : public ::testing::Test {
protected:
  SizeMathTest() : builder(UnknownLoc::get(&context), &context) {
    context.loadDialect<arith::ArithDialect>();
    module = ModuleOp::create(builder.getLoc());
    builder.setInsertionPointToEnd(module->getBody());
    unknown = module->getBody()->addArgument(builder.getIndexType(),
                                             builder.getLoc());
  }

  HostSize known(int64_t value) {
    return HostSize(builder, builder.getIndexAttr(value));
  }
  HostSize dynamic() { return HostSize(builder, unknown); }

  MLIRContext context;
  ImplicitLocOpBuilder builder;
  OwningOpRef<ModuleOp> module;
  Value unknown;
};

/// Uses every operation once.
template <typename T> T computeAll(const T &a, const T &b, const T &c) {
  T sum = ceilDiv(a, b) + alignTo(b, c) * 3 - a / c + a % b;
  return minOf(maxOf(sum, c), a * b) +
         select(compare(Relation::Less, a, b), c, a);
}

TEST_F(SizeMathTest, AgreesWithNumbers) {
  std::mt19937_64 random(7);
  auto draw = [&] { return static_cast<int64_t>(random() >> 36) + 1; };
  for (int i = 0; i < 1000; ++i) {
    int64_t a = draw(), b = draw() % 1000 + 1, c = draw() % 100 + 1;
    std::optional<int64_t> folded =
        computeAll(known(a), known(b), known(c)).getKnown();
    EXPECT_EQ(folded, computeAll(a, b, c)) << a << " " << b << " " << c;
    std::optional<int64_t> other =
        computeAll(known(c), known(b), known(a)).getKnown();
    EXPECT_EQ(other, computeAll(c, b, a)) << c << " " << b << " " << a;
  }
  // Conditions become constants, and sizes create no operations.
  for (Operation &op : *module->getBody())
    EXPECT_TRUE(isa<arith::ConstantOp>(op));
}

TEST_F(SizeMathTest, ComparesAsNumbersDo) {
  for (Relation relation : {Relation::Equal, Relation::Less, Relation::AtMost,
                            Relation::More, Relation::AtLeast})
    for (int64_t a : {-1, 0, 1})
      EXPECT_EQ(*getConstantIntValue(
                    compare(relation, known(a), known(0)).getValue()) != 0,
                compare(relation, a, int64_t(0)));
}

TEST_F(SizeMathTest, CreatesOperationsOnUnknownSizes) {
  auto defines = [&](const HostSize &size) {
    EXPECT_EQ(size.getKnown(), std::nullopt);
    return size.getValue(builder).getDefiningOp();
  };
  HostSize size = dynamic();
  EXPECT_TRUE(isa<arith::AddIOp>(defines(size + 0)));
  EXPECT_TRUE(isa<arith::SubIOp>(defines(5 - size)));
  EXPECT_TRUE(isa<arith::MulIOp>(defines(2 * size)));
  EXPECT_TRUE(isa<arith::DivSIOp>(defines(size / 2)));
  EXPECT_TRUE(isa<arith::RemSIOp>(defines(size % 2)));
  EXPECT_TRUE(isa<arith::CeilDivSIOp>(defines(ceilDiv(size, 2))));
  EXPECT_TRUE(isa<arith::MinSIOp>(defines(minOf(size, 2))));
  EXPECT_TRUE(isa<arith::MaxSIOp>(defines(maxOf(2, size))));
  HostCondition isLess = compare(Relation::Less, size, 8);
  auto choice = dyn_cast<arith::SelectOp>(defines(select(isLess, 1, 2)));
  ASSERT_TRUE(choice);
  auto less = choice.getCondition().getDefiningOp<arith::CmpIOp>();
  ASSERT_TRUE(less);
  EXPECT_EQ(less.getPredicate(), arith::CmpIPredicate::slt);
  EXPECT_EQ(less.getLhs(), unknown);

  // Operands keep the order of the expression.
  auto difference = cast<arith::SubIOp>(defines(5 - size));
  EXPECT_EQ(getConstantIntValue(difference.getLhs()), 5);
  EXPECT_EQ(difference.getRhs(), unknown);
}

TEST_F(SizeMathTest, MultiplyingOrDividingByOneIsFree) {
  EXPECT_EQ((dynamic() * 1).getValue(builder), unknown);
  EXPECT_EQ((1 * dynamic()).getValue(builder), unknown);
  EXPECT_EQ((dynamic() / 1).getValue(builder), unknown);
  EXPECT_TRUE(module->getBody()->empty());
}

TEST_F(SizeMathTest, LeavesErrorsToTheHost) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ((known(most) + 1).getKnown(), std::nullopt);
  EXPECT_EQ((least - known(1)).getKnown(), std::nullopt);
  EXPECT_EQ((known(most) * 2).getKnown(), std::nullopt);
  EXPECT_EQ((known(7) / 0).getKnown(), std::nullopt);
  EXPECT_EQ((known(7) % 0).getKnown(), std::nullopt);
  EXPECT_EQ(ceilDiv(known(least), -1).getKnown(), std::nullopt);
}

TEST_F(SizeMathTest, NumbersKeepWhereOperationsGo) {
  // 4 is a number of the model and 1 a size, so their product is a size.
  HostSize size = 4 * known(1) + std::numeric_limits<int64_t>::max();
  EXPECT_EQ(size.getKnown(), std::nullopt);
  EXPECT_TRUE(size.getValue(builder).getDefiningOp<arith::AddIOp>());
}

} // namespace
