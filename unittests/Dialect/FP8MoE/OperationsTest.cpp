//===- OperationsTest.cpp - Inferred types and sizes ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Types and sizes that operations compute for their results, from the types and
// sizes of operands. They are compared with values that were computed by hand.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

using Shape = SmallVector<int64_t>;

class Operations : public ::testing::Test {
protected:
  Operations()
      : builder(&context), loc(builder.getUnknownLoc()),
        handler(&context, [this](Diagnostic &diagnostic) {
          message = diagnostic.str();
          return success();
        }) {
    context
        .loadDialect<FP8MoEDialect, func::FuncDialect, arith::ArithDialect>();
    rounding = ScaleRoundingAttr::get(&context, ScaleRounding::Pow2);
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
  }

  RankedTensorType type(StringRef text) {
    return cast<RankedTensorType>(parseType(text, &context));
  }

  TypeAttr e4m3() { return TypeAttr::get(E4M3Type::get(&context)); }

  Value value(StringRef text) {
    return module->getBody()->addArgument(type(text), loc);
  }

  /// Returns the types that `OpTy` infers for its results, or none on failure.
  template <typename OpTy>
  SmallVector<Type> infer(ValueRange operands, ArrayRef<NamedAttribute> attrs) {
    DictionaryAttr dictionary = builder.getDictionaryAttr(attrs);
    typename OpTy::Properties properties;
    auto emitError = [&] { return mlir::emitError(loc); };
    if (failed(OpTy::setPropertiesFromAttr(properties, dictionary, emitError)))
      return {};
    SmallVector<Type> types;
    if (failed(OpTy::inferReturnTypes(&context, loc, operands, dictionary,
                                      OpaqueProperties(&properties),
                                      RegionRange(), types)))
      return {};
    return types;
  }

  /// Parses a function with one operation of the dialect. Returns the sizes of
  /// its results for arguments with the sizes `arguments`.
  std::optional<SmallVector<Shape>> resultSizes(StringRef text,
                                                ArrayRef<Shape> arguments) {
    OwningOpRef<ModuleOp> source =
        parseSourceString<ModuleOp>(text, ParserConfig(&context));
    if (!source) {
      ADD_FAILURE() << message;
      return std::nullopt;
    }
    ResultSizesOpInterface op;
    source->walk([&](ResultSizesOpInterface found) { op = found; });
    OpBuilder inside(op);
    auto getDim = [&](TypedValue<RankedTensorType> operand,
                      int64_t dim) -> OpFoldResult {
      unsigned number = cast<BlockArgument>(operand).getArgNumber();
      EXPECT_TRUE(operand.getType().isDynamicDim(dim));
      return inside.getIndexAttr(arguments[number][dim]);
    };
    ResultSizes sizes;
    if (failed(op.reifyResultSizes({inside, loc, getDim}, sizes)))
      return std::nullopt;
    return llvm::map_to_vector(sizes, [](ArrayRef<OpFoldResult> shape) {
      return llvm::map_to_vector(shape, [](OpFoldResult size) {
        return getConstantIntValue(size).value_or(ShapedType::kDynamic);
      });
    });
  }

  MLIRContext context;
  OpBuilder builder;
  Location loc;
  ScaleRoundingAttr rounding;
  OwningOpRef<ModuleOp> module;
  std::string message;
  ScopedDiagnosticHandler handler;
};

using Shapes = SmallVector<Shape>;

//===----------------------------------------------------------------------===//
// Type inference
//===----------------------------------------------------------------------===//

TEST_F(Operations, TransposeInfersItsLayout) {
  auto op = TransposeOp::create(
      builder, loc,
      value("tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1], "
            "align = 16, groups<dim = 0, pad = 4>>>"),
      ArrayRef<int64_t>{1, 0});
  EXPECT_EQ(op.getType(),
            type("tensor<8x?xf32, #fp8moe.strided<[1, 0], strides = [1, ?], "
                 "align = 16, groups<dim = 1, pad = 4>>>"));
  auto back = TransposeOp::create(builder, loc, op, ArrayRef<int64_t>{1, 0});
  EXPECT_EQ(back.getType(), op.getInput().getType());
}

TEST_F(Operations, TransposeOfAColumnMajorTensorNeedsNoEncoding) {
  auto op = TransposeOp::create(
      builder, loc, value("tensor<2x4x8xf32, #fp8moe.strided<[0, 2, 1]>>"),
      ArrayRef<int64_t>{0, 2, 1});
  EXPECT_EQ(op.getType(), type("tensor<2x8x4xf32>"));
}

TEST_F(Operations, ContiguousInfersDenseRowMajor) {
  auto op = ContiguousOp::create(
      builder, loc,
      value("tensor<?x8xf32, #fp8moe.strided<[1, 0], align = 16>>"));
  EXPECT_EQ(op.getType(), type("tensor<?x8xf32>"));
}

TEST_F(Operations, ScalesInferTheShapeWithoutTheAxis) {
  Value input = value("tensor<4x?x8xbf16, #fp8moe.strided<[0, 2, 1]>>");
  auto op = ScaleOp::create(builder, loc, input, builder.getI64IntegerAttr(1),
                            rounding, e4m3(), KernelChoiceAttr());
  EXPECT_EQ(op.getType(), type("tensor<4x8xf32>"));
}

TEST_F(Operations, JaggedScalesInferGroupsByTheOtherDimension) {
  Value input = value("tensor<?x8xbf16>"), ends = value("tensor<5xi32>");
  auto rows = JaggedScaleOp::create(builder, loc, input, ends,
                                    builder.getI64IntegerAttr(0), rounding,
                                    e4m3(), KernelChoiceAttr());
  EXPECT_EQ(rows.getType(), type("tensor<5x8xf32>"));
  auto columns = JaggedScaleOp::create(builder, loc, input, ends,
                                       builder.getI64IntegerAttr(1), rounding,
                                       e4m3(), KernelChoiceAttr());
  EXPECT_EQ(columns.getType(), type("tensor<5x?xf32>"));
}

TEST_F(Operations, InferenceFailsWithAMessage) {
  auto axis = [&](int64_t value) {
    return builder.getNamedAttr("axis", builder.getI64IntegerAttr(value));
  };
  auto permutation = [&](ArrayRef<int64_t> value) {
    return builder.getNamedAttr("permutation",
                                builder.getDenseI64ArrayAttr(value));
  };
  Value input = value("tensor<4x8xf32>");
  EXPECT_EQ(infer<ScaleOp>(input, axis(0)),
            SmallVector<Type>({type("tensor<8xf32>")}));
  EXPECT_TRUE(infer<ScaleOp>(input, axis(-1)).empty());
  EXPECT_TRUE(infer<ScaleOp>(input, axis(2)).empty());
  EXPECT_TRUE(infer<ScaleOp>(value("tensor<f32>"), axis(0)).empty());
  EXPECT_NE(message.find("expects an axis"), std::string::npos) << message;
  EXPECT_TRUE(infer<JaggedScaleOp>(
                  {value("tensor<4xf32>"), value("tensor<2xi32>")}, axis(0))
                  .empty());
  EXPECT_NE(message.find("rank 2"), std::string::npos) << message;
  EXPECT_TRUE(infer<TransposeOp>(input, permutation({0, 0})).empty());
  EXPECT_TRUE(infer<TransposeOp>(input, permutation({0})).empty());
  EXPECT_NE(message.find("expects a permutation"), std::string::npos)
      << message;
  EXPECT_TRUE(
      infer<TransposeOp>(value("tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>"),
                         permutation({1, 0}))
          .empty());
  EXPECT_NE(message.find("use fp8moe.relayout"), std::string::npos) << message;
}

//===----------------------------------------------------------------------===//
// Sizes of results
//===----------------------------------------------------------------------===//

TEST_F(Operations, SizesOfViews) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8x?xf32>) {
      %0 = fp8moe.transpose %x [2, 0, 1] : tensor<?x8x?xf32>
          -> tensor<?x?x8xf32, #fp8moe.strided<[1, 2, 0]>>
      return
    })",
                        {{5, 8, 7}}),
            Shapes({{7, 5, 8}}));
}

TEST_F(Operations, SizesOfReshapes) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x4x8xf32>) {
      %0 = fp8moe.reshape %x : tensor<?x4x8xf32> -> tensor<?x8xf32>
      return
    })",
                        {{5, 4, 8}}),
            Shapes({{20, 8}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32>) {
      %0 = fp8moe.reshape %x : tensor<?x8xf32> -> tensor<3x?x4x8xf32>
      return
    })",
                        {{60, 8}}),
            Shapes({{3, 5, 4, 8}}));
  // There are no rows.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32>) {
      %0 = fp8moe.reshape %x : tensor<?x8xf32> -> tensor<?x16x8xf32>
      return
    })",
                        {{0, 8}}),
            Shapes({{0, 16, 8}}));
  // One part is empty, and a division by it must not happen.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?xf32>) {
      %0 = fp8moe.reshape %x : tensor<?xf32> -> tensor<0x?xf32>
      return
    })",
                        {{0}}),
            Shapes({{0, 0}}));
}

TEST_F(Operations, SizesOfCopies) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32, #fp8moe.strided<[1, 0]>>) {
      %0 = fp8moe.contiguous %x
          : tensor<?x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<?x8xf32>
      return
    })",
                        {{5, 8}}),
            Shapes({{5, 8}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32>) {
      %0 = fp8moe.relayout %x
          : tensor<?x8xf32> -> tensor<?x8xf32, #fp8moe.strided<[1, 0]>>
      return
    })",
                        {{5, 8}}),
            Shapes({{5, 8}}));
}

TEST_F(Operations, SizesOfPaddedCopies) {
  // The padded extent is round_up(100 + 8 * 15, 16) = 224.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32>, %ends: tensor<?xi32>) {
      %0 = fp8moe.relayout %x groups(%ends : tensor<?xi32>) : tensor<?x8xf32>
          -> tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
      return
    })",
                        {{100, 8}, {8}}),
            Shapes({{224, 8}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<224x?xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>,
                 %ends: tensor<8xi32>) {
      %0 = fp8moe.relayout %x groups(%ends : tensor<8xi32>)
          : tensor<224x?xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
          -> tensor<100x?xf32>
      return
    })",
                        {{224, 8}, {8}}),
            Shapes({{100, 8}}));
}

TEST_F(Operations, PackedSizesDoNotFollowFromPaddedOnes) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>,
                 %ends: tensor<8xi32>) {
      %0 = fp8moe.relayout %x groups(%ends : tensor<8xi32>)
          : tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
          -> tensor<?x8xf32>
      return
    })",
                        {{224, 8}, {8}}),
            std::nullopt);
  EXPECT_NE(message.find("packs groups into an unknown number of rows"),
            std::string::npos)
      << message;
}

TEST_F(Operations, SizesOfScales) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?x8xf32>) {
      %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3
          : tensor<?x?x8xf32> -> tensor<?x8xf32>
      return
    })",
                        {{4, 5, 8}}),
            Shapes({{4, 8}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?xf32>, %ends: tensor<?xi32>) {
      %0 = fp8moe.jagged_scale %x groups(%ends : tensor<?xi32>) along 1
          rounding pow2 fp8 !fp8moe.e4m3 : tensor<?x?xf32> -> tensor<?x?xf32>
      return
    })",
                        {{16, 100}, {7}}),
            Shapes({{7, 16}}));
}

TEST_F(Operations, SizesOfCasts) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf32>, %s: tensor<?xf32>) {
      %0 = fp8moe.quantize %x by %s along 1 : tensor<?x8xf32>, tensor<?xf32>
          -> tensor<?x8x!fp8moe.e4m3>
      return
    })",
                        {{5, 8}, {5}}),
            Shapes({{5, 8}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x8xf8E5M2>, %s: tensor<?xf32>) {
      %0 = fp8moe.dequantize %x by %s along 1 direction quantize
          : tensor<?x8xf8E5M2>, tensor<?xf32> -> tensor<?x8xbf16>
      return
    })",
                        {{5, 8}, {5}}),
            Shapes({{5, 8}}));
}

TEST_F(Operations, SizesOfFusedQuantizations) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?xf32>) {
      %0:4 = fp8moe.dynamic_quantize %x along [1, 0] rounding pow2
          : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3>,
            tensor<?xf32>, tensor<?xf32>
      return
    })",
                        {{5, 8}}),
            Shapes({{5, 8}, {5, 8}, {5}, {8}}));
  // Only the data of the jagged axis are padded: round_up(100 + 3 * 127, 128) =
  // 512.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?xf32>, %ends: tensor<?xi32>) {
      %0:4 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>)
          along [0, 1] rounding pow2 : tensor<?x?xf32>
          -> tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>>,
             tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>, tensor<?xf32>
      return
    })",
                        {{100, 16}, {3}}),
            Shapes({{512, 16}, {100, 16}, {3, 16}, {100}}));
}

TEST_F(Operations, SizesOfMXScales) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?x?xf32>) {
      %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x?x?xf32>
          -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU>
      return
    })",
                        {{4, 65, 16}}),
            Shapes({{4, 65, 16}, {4, 16, 3}}));
}

TEST_F(Operations, SizesOfMXScalesAlongBothAxes) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x?xf32>) {
      %0:4 = fp8moe.mx_quantize %x along [0, 1] mode even square : tensor<?x?xf32>
          -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3>,
             tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>
      return
    })",
                        {{65, 16}}),
            Shapes({{65, 16}, {65, 16}, {16, 3}, {65, 1}}));
}

TEST_F(Operations, SizesOfJaggedMXScales) {
  // The padded extent is round_up(1000 + 4 * 127, 128) = 1536.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x80xf32>, %ends: tensor<?xi32>) {
      %0:2 = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<?xi32>)
          : tensor<?x80xf32> -> tensor<?x80x!fp8moe.e4m3>,
            tensor<?x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
      return
    })",
                        {{1000, 80}, {4}}),
            Shapes({{1000, 80}, {1536, 3}}));
  // The padded number of block columns is 1536 / 32 = 48.
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%x: tensor<?x80xf32>, %ends: tensor<?xi32>) {
      %0:2 = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<?xi32>)
          : tensor<?x80xf32> -> tensor<?x80x!fp8moe.e4m3>,
            tensor<80x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>
      return
    })",
                        {{1000, 80}, {4}}),
            Shapes({{1000, 80}, {80, 48}}));
}

TEST_F(Operations, SizesOfGroupedMatmuls) {
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16>, %ends: tensor<?xi32>) {
      %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
          : tensor<?x?xbf16>, tensor<?x?x?xbf16> -> tensor<?x?xf32>
      return
    })",
                        {{100, 16}, {4, 16, 24}, {4}}),
            Shapes({{100, 24}}));
  EXPECT_EQ(resultSizes(R"(
    func.func @f(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>, %ends: tensor<?xi32>) {
      %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
          : tensor<?x?xbf16>, tensor<?x?xbf16> -> tensor<?x?x?xf32>
      return
    })",
                        {{24, 100}, {100, 16}, {4}}),
            Shapes({{4, 24, 16}}));
}

//===----------------------------------------------------------------------===//
// Sizes that must be equal
//===----------------------------------------------------------------------===//

TEST_F(Operations, ScalesOfACastCountItsSlices) {
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(
      R"(func.func @f(%x: tensor<?x?x?xf32>, %s: tensor<?x?xf32>) {
           %0 = fp8moe.quantize %x by %s along 1
               : tensor<?x?x?xf32>, tensor<?x?xf32> -> tensor<?x?x?xf8E4M3FN>
           return
         })",
      ParserConfig(&context));
  ASSERT_TRUE(source);
  source->walk([&](QuantizeOp op) {
    SmallVector<EqualSizes> pairs;
    op.getEqualSizes(pairs);
    ASSERT_EQ(pairs.size(), 2u);
    EXPECT_EQ(pairs[0].first, op.getScale());
    EXPECT_EQ(pairs[0].firstDim, 0);
    EXPECT_EQ(pairs[0].second, op.getInput());
    EXPECT_EQ(pairs[0].secondDim, 0);
    EXPECT_EQ(pairs[1].firstDim, 1);
    EXPECT_EQ(pairs[1].secondDim, 2);
  });
}

} // namespace
