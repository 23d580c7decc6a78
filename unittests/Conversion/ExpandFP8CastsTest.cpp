//===- ExpandFP8CastsTest.cpp - Casts against APFloat ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Runs the expansion on constants, folds the result, and compares it with
// LLVM's conversion. Inputs are every code of every format, and f32 values
// around each rounding boundary.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class ExpandFP8Casts : public ::testing::Test {
protected:
  ExpandFP8Casts() {
    context.loadDialect<arith::ArithDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  SmallVector<FloatType> formats() {
    return {Float8E4M3FNType::get(&context), Float8E5M2Type::get(&context),
            Float8E4M3FNUZType::get(&context),
            Float8E5M2FNUZType::get(&context)};
  }

  /// Casts constants with `OpTy`, expands and folds the cast, and returns the
  /// resulting constants.
  template <typename OpTy>
  SmallVector<APFloat> cast(ArrayRef<APFloat> inputs, FloatType source,
                            FloatType target) {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    auto size = static_cast<int64_t>(inputs.size());
    auto targetType = VectorType::get(size, target);
    auto func = func::FuncOp::create(builder, loc, "f",
                                     builder.getFunctionType({}, {targetType}));
    builder.setInsertionPointToEnd(func.addEntryBlock());
    Value constant = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(VectorType::get(size, source), inputs));
    Value result = OpTy::create(builder, loc, targetType, constant);
    auto returnOp = func::ReturnOp::create(builder, loc, result);

    RewritePatternSet patterns(&context);
    populateExpandFP8CastsPatterns(patterns);
    walkAndApplyPatterns(*module, std::move(patterns));
    EXPECT_TRUE(func.getOps<OpTy>().empty()) << "the cast was not expanded";
    if (failed(applyPatternsGreedily(*module, FrozenRewritePatternSet())))
      ADD_FAILURE() << "folding did not converge";

    DenseElementsAttr folded;
    if (!matchPattern(returnOp.getOperand(0), m_Constant(&folded))) {
      ADD_FAILURE() << "the expansion did not fold to a constant";
      return {};
    }
    return llvm::to_vector(folded.getValues<APFloat>());
  }

  MLIRContext context;
};

/// Returns the code that the pass uses for NaN in a format.
uint64_t canonicalNaN(FloatType format) {
  return isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(format) ? 0x80 : 0x7F;
}

/// Returns the f32 values that decide how `format` rounds: each value of the
/// format, each midpoint of neighbours, and the f32 values next to both.
SmallVector<APFloat> boundaryPatterns(FloatType format) {
  SmallVector<APFloat> patterns;
  auto addBits = [&](uint32_t bits) {
    for (uint32_t near : {bits - 1, bits, bits + 1})
      for (uint32_t sign : {0u, 0x80000000u})
        patterns.emplace_back(APFloat::IEEEsingle(),
                              APInt(32, (near & 0x7FFFFFFF) | sign));
  };
  auto toF32 = [&](uint8_t code) {
    APFloat value(format.getFloatSemantics(), APInt(8, code));
    bool losesInfo;
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value.convertToFloat();
  };
  for (unsigned code = 0; code < 0x7F; ++code) {
    float value = toF32(code), next = toF32(code + 1);
    if (std::isfinite(value))
      addBits(llvm::bit_cast<uint32_t>(value));
    if (std::isfinite(value) && std::isfinite(next))
      addBits(llvm::bit_cast<uint32_t>((value + next) / 2));
  }
  // The last midpoint is beyond the largest value.
  bool losesInfo;
  APFloat largest = APFloat::getLargest(format.getFloatSemantics());
  largest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  uint32_t largestBits = llvm::bit_cast<uint32_t>(largest.convertToFloat());
  unsigned mantissaBits = format.getFPMantissaWidth() - 1;
  addBits(largestBits + (1u << (23 - mantissaBits - 1)));
  addBits(largestBits + (1u << (23 - mantissaBits)));
  for (uint32_t bits : {0x00000001u, 0x00800000u, 0x7F7FFFFFu, 0x7F800000u,
                        0x7FC00000u, 0x7F800002u, 0x7FFFFFFEu})
    addBits(bits);
  return patterns;
}

TEST_F(ExpandFP8Casts, DecodesEveryCode) {
  for (FloatType format : formats()) {
    SmallVector<APFloat> codes;
    for (unsigned code = 0; code < 256; ++code)
      codes.emplace_back(format.getFloatSemantics(), APInt(8, code));
    SmallVector<APFloat> decoded =
        cast<arith::ExtFOp>(codes, format, Float32Type::get(&context));
    ASSERT_EQ(decoded.size(), codes.size());
    for (auto [code, value] : llvm::zip_equal(codes, decoded)) {
      APFloat expected = code;
      bool losesInfo;
      expected.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                       &losesInfo);
      EXPECT_TRUE(expected.isNaN() ? value.isNaN()
                                   : expected.bitwiseIsEqual(value))
          << "code " << code.bitcastToAPInt().getZExtValue();
    }
  }
}

TEST_F(ExpandFP8Casts, EncodesAroundEveryBoundary) {
  for (FloatType format : formats()) {
    SmallVector<APFloat> patterns = boundaryPatterns(format);
    SmallVector<APFloat> encoded =
        cast<arith::TruncFOp>(patterns, Float32Type::get(&context), format);
    ASSERT_EQ(encoded.size(), patterns.size());
    for (auto [pattern, code] : llvm::zip_equal(patterns, encoded)) {
      APFloat expected = pattern;
      bool losesInfo;
      expected.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                       &losesInfo);
      uint64_t expectedCode = expected.isNaN()
                                  ? canonicalNaN(format)
                                  : expected.bitcastToAPInt().getZExtValue();
      EXPECT_EQ(code.bitcastToAPInt().getZExtValue(), expectedCode)
          << "f32 " << pattern.bitcastToAPInt().getZExtValue();
    }
  }
}

TEST_F(ExpandFP8Casts, EncodesBF16) {
  SmallVector<APFloat> patterns;
  for (uint64_t upper = 0; upper < 0x10000; upper += 7)
    for (uint32_t lower : {0x0000u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      patterns.emplace_back(APFloat::IEEEsingle(),
                            APInt(32, (upper << 16) | lower));
  SmallVector<APFloat> encoded = cast<arith::TruncFOp>(
      patterns, Float32Type::get(&context), BFloat16Type::get(&context));
  ASSERT_EQ(encoded.size(), patterns.size());
  for (auto [pattern, code] : llvm::zip_equal(patterns, encoded)) {
    APFloat expected = pattern;
    bool losesInfo;
    expected.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven,
                     &losesInfo);
    EXPECT_EQ(code.bitcastToAPInt().getZExtValue(),
              expected.isNaN() ? 0x7FC0
                               : expected.bitcastToAPInt().getZExtValue());
  }
}

} // namespace
