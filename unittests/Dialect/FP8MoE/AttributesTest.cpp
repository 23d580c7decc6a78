//===- AttributesTest.cpp - Targets, tiles and types ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class Attributes : public ::testing::Test {
protected:
  Attributes()
      : handler(&context, [this](Diagnostic &diagnostic) {
          message = diagnostic.str();
          return success();
        }) {
    context.loadDialect<FP8MoEDialect>();
  }

  OwningOpRef<ModuleOp> parse(StringRef text) {
    return parseSourceString<ModuleOp>(text, &context);
  }

  Type type(StringRef text) { return parseType(text, &context); }

  MLIRContext context;
  std::string message;
  ScopedDiagnosticHandler handler;
};

TEST_F(Attributes, FindsTheTargetOfTheModuleAround) {
  OwningOpRef<ModuleOp> module = parse(
      R"(module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
           builtin.unrealized_conversion_cast to i32
         })");
  ASSERT_TRUE(module);
  Operation *inner = &module->getBody()->front();
  TargetAttr target = lookupTargetAttr(inner);
  ASSERT_TRUE(target);
  EXPECT_EQ(target, lookupTargetAttr(*module));
  EXPECT_EQ(target.getInfo().chip, "gfx942");
  EXPECT_EQ(*requireTargetAttr(inner), target);
}

TEST_F(Attributes, ReportsAMissingTarget) {
  OwningOpRef<ModuleOp> module = parse("module {}");
  EXPECT_FALSE(lookupTargetAttr(*module));
  EXPECT_TRUE(failed(requireTargetAttr(*module)));
  EXPECT_NE(message.find("fp8moe.target = #fp8moe.target<\"sm_90a\">"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("gfx950"), std::string::npos) << message;
}

TEST_F(Attributes, KnowsFp8Types) {
  struct Case {
    StringRef text;
    Fp8Format format;
    std::optional<Fp8Flavour> flavour;
  };
  for (const Case &c : {
           Case{"!fp8moe.e4m3", Fp8Format::E4M3, std::nullopt},
           Case{"!fp8moe.e5m2", Fp8Format::E5M2, std::nullopt},
           Case{"f8E4M3FN", Fp8Format::E4M3, Fp8Flavour::FN},
           Case{"f8E5M2", Fp8Format::E5M2, Fp8Flavour::FN},
           Case{"f8E4M3FNUZ", Fp8Format::E4M3, Fp8Flavour::FNUZ},
           Case{"f8E5M2FNUZ", Fp8Format::E5M2, Fp8Flavour::FNUZ},
       }) {
    SCOPED_TRACE(c.text.str());
    EXPECT_TRUE(isFp8Type(type(c.text)));
    EXPECT_EQ(isNeutralFp8Type(type(c.text)), !c.flavour);
    EXPECT_EQ(getFp8Format(type(c.text)), c.format);
    EXPECT_EQ(getFp8Flavour(type(c.text)), c.flavour);
    if (c.flavour) {
      EXPECT_EQ(getBuiltinFp8Type(&context, c.format, *c.flavour),
                type(c.text));
    }
  }
  for (StringRef text : {"f8E4M3", "f8E3M4", "f8E4M3B11FNUZ", "f8E8M0FNU",
                         "bf16", "i8", "index"})
    EXPECT_FALSE(isFp8Type(type(text))) << text.str();
}

TEST_F(Attributes, KnowsTheLargestFp8Values) {
  EXPECT_EQ(getFp8Max(type("f8E4M3FN")), 448);
  EXPECT_EQ(getFp8Max(type("f8E4M3FNUZ")), 240);
  EXPECT_EQ(getFp8Max(type("f8E5M2")), 57344);
  EXPECT_EQ(getFp8Max(type("f8E5M2FNUZ")), 57344);
}

} // namespace
