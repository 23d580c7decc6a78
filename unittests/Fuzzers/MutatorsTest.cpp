//===- MutatorsTest.cpp - Changes to inputs keep their structure ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mutators.h"

#include "fp8moe/InitAll.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <set>

using namespace fuzz;

static constexpr llvm::StringLiteral kModule = R"mlir(
#column_major = #fp8moe.strided<[1, 0]>
func.func @quantize(%grad: tensor<?x2048xbf16> {fp8moe.name = "grad"},
                    %ends: tensor<64xi32> {fp8moe.name = "ends"})
    -> (tensor<?x2048xf8E4M3FN, #column_major>, tensor<64x2048xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %grad groups(%ends : tensor<64xi32>)
      along [0] rounding pow2 : tensor<?x2048xbf16>
      -> tensor<?x2048xf8E4M3FN, #column_major>, tensor<64x2048xf32>
  return %q, %s
      : tensor<?x2048xf8E4M3FN, #column_major>, tensor<64x2048xf32>
}
)mlir";

static constexpr llvm::StringLiteral kOther = R"mlir(
func.func @cast(%x: tensor<8x64xf32>) -> tensor<64x8xf32> {
  %t = fp8moe.transpose %x [1, 0] : tensor<8x64xf32> -> tensor<64x8xf32>
  return %t : tensor<64x8xf32>
}
)mlir";

static constexpr unsigned kSeeds = 500;

/// Returns how many of the texts that `change` makes are accepted by the
/// parser, and with `verifies` also by the verifier.
template <typename Change>
static unsigned countAccepted(bool verifies, Change change) {
  mlir::DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
  unsigned accepted = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    accepted += bool(mlir::parseSourceString<mlir::ModuleOp>(
        change(random), mlir::ParserConfig(&context, verifies)));
  }
  return accepted;
}

TEST(Tokens, JoinToTheirText) {
  for (llvm::StringRef text : {kModule, kOther})
    EXPECT_EQ(join(tokenize(text)), text);
  Random random(0);
  for (unsigned i = 0; i < kSeeds; ++i) {
    std::string bytes(random.below(64), ' ');
    for (char &byte : bytes)
      byte = static_cast<char>(random.below(256));
    EXPECT_EQ(join(tokenize(bytes)), bytes);
  }
}

TEST(Tokens, CutShapesAndGroups) {
  Tokens tokens = tokenize("tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> // x");
  EXPECT_EQ(tokens[3].text, "x");
  EXPECT_EQ(tokens[6].text, "bf16");
  EXPECT_EQ(getGroup(tokens, 0).size(), tokens.size() - 1);
  EXPECT_EQ(tokens.back().kind, TokenKind::Space);
}

TEST(TextMutator, KeepsMostModulesParseable) {
  auto change = [](Random &random) { return mutateText(kModule, random); };
  EXPECT_GE(countAccepted(/*verifies=*/false, change), kSeeds / 2);
  EXPECT_GE(countAccepted(/*verifies=*/true, change), kSeeds / 3);
}

TEST(TextMutator, TakesPiecesOfOthers) {
  auto change = [](Random &random) {
    return crossOverText(kModule, kOther, random);
  };
  EXPECT_GE(countAccepted(/*verifies=*/false, change), kSeeds / 2);
  EXPECT_GE(countAccepted(/*verifies=*/true, change), kSeeds / 3);
}

TEST(TextMutator, FollowsItsSeed) {
  std::set<std::string> texts;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random one(seed), other(seed);
    std::string text = mutateText(kModule, one);
    EXPECT_EQ(text, mutateText(kModule, other));
    texts.insert(text);
  }
  EXPECT_GE(texts.size(), kSeeds / 2);
}

TEST(TextMutator, TakesAnyText) {
  Random random(0);
  for (llvm::StringRef text : {"", "\n", "<", "[(", "\"", "%x", "1x"})
    for (unsigned i = 0; i < kSeeds; ++i) {
      (void)mutateText(text, random);
      (void)crossOverText(text, kOther, random);
      (void)crossOverText(kOther, text, random);
    }
}
