//===- CompilerTest.cpp - Tests of the C API of the compiler --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Compiler.h"
#include "fp8moe-c/Dialect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Diagnostics.h"
#include "gtest/gtest.h"

#include <filesystem>
#include <string>

namespace {
constexpr const char *kCast = R"mlir(
func.func @cast(%x: tensor<?x64xbf16> {fp8moe.name = "x"})
    -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
)mlir";

MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

void append(MlirStringRef text, void *data) {
  static_cast<std::string *>(data)->append(text.data, text.length);
}

void expectContains(const std::string &text, const char *part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "'" << part << "' is not in:\n"
      << text;
}

/// A context that collects diagnostics.
class CompilerTest : public testing::Test {
protected:
  void SetUp() override {
    context = fp8moeContextCreate();
    mlirContextAttachDiagnosticHandler(
        context,
        [](MlirDiagnostic diagnostic, void *data) {
          mlirDiagnosticPrint(diagnostic, append, data);
          return mlirLogicalResultSuccess();
        },
        &diagnostics, nullptr);
  }
  void TearDown() override {
    mlirModuleDestroy(module);
    mlirContextDestroy(context);
  }

  void parse(const char *source) {
    module = fp8moeModuleParse(context, ref(source), ref("test.mlir"));
  }

  MlirContext context;
  MlirModule module = {nullptr};
  std::string diagnostics;
};

TEST_F(CompilerTest, CompilesAndReports) {
  parse(kCast);
  ASSERT_FALSE(mlirModuleIsNull(module)) << diagnostics;
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "fp8moe-capi";
  std::filesystem::remove_all(folder);
  std::string path = folder.string();
  MlirStringRef targets[] = {ref("cpu"), ref("cpu")};
  Fp8moeCompileOptions options = fp8moeCompileOptionsGet();
  options.targets = targets;
  options.numTargets = 2;
  options.tokens = 1 << 20;

  std::string json;
  ASSERT_TRUE(mlirLogicalResultIsSuccess(fp8moeCompile(
      module, ref(path.c_str()), &options, /*text=*/nullptr, append, &json)))
      << diagnostics;
  expectContains(json, R"("chip":"cpu")");
  expectContains(json, R"("bytes":"196 B/token")");
  expectContains(json, R"("tokens":1048576)");
  EXPECT_TRUE(std::filesystem::exists(folder / "cpu" / "manifest.json"));

  std::string text;
  ASSERT_TRUE(mlirLogicalResultIsSuccess(
      fp8moeEmit(module, ref("tensor"), &options, append, &text)));
  expectContains(text, "f8E4M3FN");
  std::filesystem::remove_all(folder);
}

TEST_F(CompilerTest, RefusesWhatItDoesNotKnow) {
  parse(kCast);
  Fp8moeCompileOptions options = fp8moeCompileOptionsGet();
  std::string output;
  EXPECT_TRUE(mlirLogicalResultIsFailure(
      fp8moeEmit(module, ref("exe"), &options, append, &output)));
  expectContains(diagnostics, "unknown stage 'exe'");
  MlirStringRef target = ref("sm_1");
  options.targets = &target;
  options.numTargets = 1;
  EXPECT_TRUE(mlirLogicalResultIsFailure(
      fp8moeEmit(module, ref("tensor"), &options, append, &output)));
  expectContains(diagnostics, "unknown target 'sm_1'");
  EXPECT_TRUE(mlirLogicalResultIsFailure(
      fp8moeOptimize(module, ref(""), /*optimizeLayouts=*/true)));
  EXPECT_EQ(output, "");
}

TEST_F(CompilerTest, ParsesNothingWithoutADiagnostic) {
  parse("func.func @f( {");
  EXPECT_TRUE(mlirModuleIsNull(module));
  EXPECT_NE(diagnostics, "");
}

TEST_F(CompilerTest, AttributesAreTheirParameters) {
  int64_t order[] = {1, 0};
  MlirNamedAttribute entry = {mlirIdentifierGet(context, ref("order")),
                              mlirDenseI64ArrayGet(context, 2, order)};
  MlirLocation unknown = mlirLocationUnknownGet(context);
  MlirAttribute layout = fp8moeAttributeGet(
      unknown, ref("strided"), mlirDictionaryAttrGet(context, 1, &entry));
  ASSERT_FALSE(mlirAttributeIsNull(layout)) << diagnostics;
  EXPECT_TRUE(
      mlirStringRefEqual(fp8moeAttributeGetMnemonic(layout), ref("strided")));
  MlirAttribute again = fp8moeAttributeGet(
      unknown, ref("strided"), fp8moeAttributeGetParameters(layout));
  EXPECT_TRUE(mlirAttributeEqual(layout, again));

  EXPECT_TRUE(mlirAttributeIsNull(fp8moeAttributeGet(
      unknown, ref("groups"), mlirDictionaryAttrGet(context, 1, &entry))));
  expectContains(diagnostics, "parameter 'dim' is missing");
  EXPECT_TRUE(
      mlirAttributeIsNull(fp8moeAttributeGet(unknown, ref("groups"), layout)));
  expectContains(diagnostics, "must be a dictionary");
  MlirAttribute other = mlirBoolAttrGet(context, 1);
  EXPECT_EQ(fp8moeAttributeGetMnemonic(other).length, 0u);
  EXPECT_TRUE(mlirAttributeIsNull(fp8moeAttributeGetParameters(other)));
}

TEST_F(CompilerTest, StridesOfTensors) {
  MlirType type = mlirTypeParseGet(
      context, ref("tensor<?x64xf32, #fp8moe.strided<[1, 0]>>"));
  MlirAttribute strides = fp8moeTensorTypeGetStrides(type);
  ASSERT_FALSE(mlirAttributeIsNull(strides));
  EXPECT_EQ(mlirDenseI64ArrayGetElement(strides, 0), 1);
  EXPECT_EQ(mlirDenseI64ArrayGetElement(strides, 1), INT64_MIN);
  EXPECT_TRUE(
      mlirAttributeIsNull(fp8moeTensorTypeGetStrides(mlirF32TypeGet(context))));
}
} // namespace
