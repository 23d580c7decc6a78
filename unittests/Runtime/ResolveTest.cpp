//===- ResolveTest.cpp - Checking inputs and evaluating sizes -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"

#include <memory>

using namespace fp8moe::runtime::test;

namespace {

constexpr int64_t big = int64_t(1) << 62;

class ResolveTest : public ::testing::Test {
protected:
  void load(json program) {
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({std::move(program)}));
    artifact = std::make_unique<LoadedArtifact>(folder.path(), "none");
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  }

  /// Returns the three numbers that the sizes program computes for that input.
  std::vector<int64_t> evaluate(json values, json results,
                                ResolvedCall::Input input) {
    TestArtifact folder;
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({makeSizesProgram(values, results)}));
    LoadedArtifact artifact(folder.path(), "none");
    EXPECT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
    ResolvedCall call(artifact.program(), {input});
    EXPECT_EQ(call.status, FP8MOE_OK) << call.error;
    if (call.status != FP8MOE_OK)
      return {};
    json args = call.describe()["launches"][0]["args"];
    return {args[1], args[2], args[3]};
  }

  /// Returns the result of binary operation `op` for two numbers.
  int64_t apply(const char *op, int64_t a, int64_t b) {
    return evaluate({{{"op", op}, {"args", {a, b}}}}, {{{"value", 0}}, 0, 0},
                    {{1, 1}, {}})
        .at(0);
  }

  /// Returns the error of resolving the loaded program.
  std::string refuse(const std::vector<ResolvedCall::Input> &inputs,
                     fp8moe_status status = FP8MOE_INVALID_ARGUMENT) {
    ResolvedCall call(artifact->program(), inputs);
    EXPECT_EQ(call.status, status);
    EXPECT_EQ(call.get(), nullptr);
    return call.error;
  }

  TestArtifact folder;
  std::unique_ptr<LoadedArtifact> artifact;
};

TEST_F(ResolveTest, Arithmetic) {
  EXPECT_EQ(apply("add", 7, -9), -2);
  EXPECT_EQ(apply("sub", 7, -9), 16);
  EXPECT_EQ(apply("mul", -7, 9), -63);
  EXPECT_EQ(apply("div", 7, 2), 3);
  EXPECT_EQ(apply("div", -7, 2), -3);
  EXPECT_EQ(apply("ceildiv", 7, 2), 4);
  EXPECT_EQ(apply("ceildiv", 8, 2), 4);
  EXPECT_EQ(apply("ceildiv", -7, 2), -3);
  EXPECT_EQ(apply("ceildiv", 7, -2), -3);
  EXPECT_EQ(apply("ceildiv", -7, -2), 4);
  EXPECT_EQ(apply("ceildiv", INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(apply("rem", -7, 2), -1);
  EXPECT_EQ(apply("max", -7, 2), 2);
  EXPECT_EQ(apply("min", -7, 2), -7);
  EXPECT_EQ(apply("lt", 2, 2), 0);
  EXPECT_EQ(apply("le", 2, 2), 1);
  EXPECT_EQ(apply("eq", 2, 2), 1);
  EXPECT_EQ(apply("ne", 2, 2), 0);
  EXPECT_EQ(apply("and", 6, 3), 2);
  EXPECT_EQ(apply("or", 6, 3), 7);
}

TEST_F(ResolveTest, SelectDimStrideConst) {
  json values = {{{"op", "dim"}, {"args", {0, 1}}},
                 {{"op", "stride"}, {"args", {0, 0}}},
                 {{"op", "const"}, {"args", {-5}}},
                 {{"op", "eq"}, {"args", {{{"value", 0}}, 8}}},
                 {{"op", "select"},
                  {"args", {{{"value", 3}}, {{"value", 1}}, {{"value", 2}}}}}};
  json results = {{{"value", 0}}, {{"value", 1}}, {{"value", 4}}};
  EXPECT_EQ(evaluate(values, results, {{4, 8}, {100, 1}}),
            (std::vector<int64_t>{8, 100, 100}));
  EXPECT_EQ(evaluate(values, results, {{4, 9}, {}}),
            (std::vector<int64_t>{9, 9, -5}));
}

TEST_F(ResolveTest, OverflowIsAnError) {
  struct Case {
    const char *op;
    int64_t a, b;
    const char *message;
  };
  for (const Case &test : std::vector<Case>{
           {"add", INT64_MAX, 1, "overflows 64 bits: value 0, add("},
           {"sub", INT64_MIN, 1, "overflows 64 bits: value 0, sub("},
           {"mul", big, 2, "overflows 64 bits: value 0, mul("},
           {"div", INT64_MIN, -1, "overflows 64 bits: value 0, div("},
           {"rem", INT64_MIN, -1, "overflows 64 bits: value 0, rem("},
           {"ceildiv", 1, 0, "divides by zero: value 0, ceildiv(1, 0)"},
           {"div", 1, 0, "divides by zero"},
           {"rem", 1, 0, "divides by zero"}}) {
    TestArtifact folder;
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({makeSizesProgram(
        {{{"op", test.op}, {"args", {test.a, test.b}}}}, {0, 0, 0})}));
    LoadedArtifact artifact(folder.path(), "none");
    ResolvedCall call(artifact.program(), {{{1, 1}, {}}});
    EXPECT_EQ(call.status, FP8MOE_OUT_OF_RANGE);
    expectContains(call.error, test.message);
    expectContains(call.error, "program 'sizes'");
  }
}

TEST_F(ResolveTest, SizesOfBuffersOverflow) {
  load(makeSizesProgram(json::array(), {0, 0, 0}));
  expectContains(refuse({{{big, 4}, {}}}, FP8MOE_OUT_OF_RANGE),
                 "input 'x': the number of elements overflows 64 bits");
  expectContains(refuse({{{big, 4}, {4, 1}}}, FP8MOE_OUT_OF_RANGE),
                 "input 'x': its size overflows 64 bits");
  // 2^61 elements of 4 bytes overflow.
  expectContains(refuse({{{big / 2, 1}, {1, 1}}}, FP8MOE_OUT_OF_RANGE),
                 "its size overflows 64 bits");
}

TEST_F(ResolveTest, WorkspaceOverflows) {
  json program = makeSizesProgram(json::array(), {0, 0, 0});
  json workspace = {{"role", "workspace"},
                    {"dtype", "U8"},
                    {"shape", {big}},
                    {"strides", {1}},
                    {"align", 1}};
  for (int i = 0; i < 4; ++i)
    program["buffers"].push_back(workspace);
  load(program);
  expectContains(refuse({{{1, 1}, {}}}, FP8MOE_OUT_OF_RANGE),
                 "the size of the workspace overflows");
}

TEST_F(ResolveTest, NegativeSizes) {
  json program =
      makeSizesProgram({{{"op", "dim"}, {"args", {0, 0}}},
                        {{"op", "sub"}, {"args", {{{"value", 0}}, 5}}}},
                       {0, 0, 0});
  json sized = program;
  sized["buffers"][1]["shape"][0] = {{"value", 1}};
  load(sized);
  expectContains(refuse({{{3, 1}, {}}}, FP8MOE_OUT_OF_RANGE),
                 "output 'out': for these input shapes dim 0 is -2");
}

TEST_F(ResolveTest, OutputsMustNotOverlapThemselves) {
  // With zero strides, the 4x8 elements of a buffer would be one element.
  auto resolve = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    json program = makeSizesProgram(json::array(), {0, 0, 0});
    program["buffers"].push_back({{"role", "workspace"},
                                  {"dtype", "U8"},
                                  {"shape", shape},
                                  {"strides", strides},
                                  {"align", 1}});
    TestArtifact folder;
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({program}));
    LoadedArtifact artifact(folder.path(), "none");
    EXPECT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
    return ResolvedCall(artifact.program(), {{{1, 1}, {}}}).error;
  };
  EXPECT_EQ(resolve({4, 8}, {8, 1}), "");
  EXPECT_EQ(resolve({4, 8}, {1, 4}), "");
  EXPECT_EQ(resolve({4, 8}, {16, 2}), "");
  // Strides of dimensions with at most one element do not matter.
  EXPECT_EQ(resolve({1, 8}, {0, 1}), "");
  EXPECT_EQ(resolve({0, 8}, {0, 0}), "");
  expectContains(resolve({4, 8}, {0, 0}), "lets elements overlap");
  expectContains(
      resolve({4, 8}, {7, 1}),
      "stride 0 of 7 elements lets elements overlap: it serves a dim "
      "1 of up to 7, found 8; pass a smaller one, or compile the "
      "program with a larger stride");
  expectContains(resolve({4, 8}, {1, 1}), "lets elements overlap");
}

TEST_F(ResolveTest, GridLimits) {
  json program =
      makeSizesProgram({{{"op", "dim"}, {"args", {0, 0}}},
                        {{"op", "sub"}, {"args", {{{"value", 0}}, 5}}}},
                       {0, 0, 0});
  program["launches"][0]["grid"][1] = {{"value", 1}};
  load(program);
  expectContains(refuse({{{3, 1}, {}}}, FP8MOE_OUT_OF_RANGE),
                 "kernel 'store': for these input shapes grid extent y is -2, "
                 "expected 0 to 1");
  expectContains(refuse({{{7, 1}, {}}}, FP8MOE_OUT_OF_RANGE), "y is 2");
}

TEST_F(ResolveTest, InputsAreChecked) {
  load(makeTwiceProgram());
  expectContains(refuse({}), "program 'twice': takes 1 inputs, found 0");
  expectContains(refuse({{{4, 2}, {}}}),
                 "program 'twice': input 'x': dim 1 is 2, expected 3");
  expectContains(refuse({{{4, 3, 1}, {}}}), "input 'x': rank is 3, expected 2");
  expectContains(refuse({{{-1, 3}, {}}}), "dim 0 is -1, which is negative");
  expectContains(refuse({{{4, 3}, {4, 1}}}),
                 "input 'x': stride 0 is 4 elements, expected 3");
  expectContains(refuse({{{4, 3}, {-3, 1}}}), "negative strides");
  expectContains(refuse({{{4, 3}, {}, FP8MOE_DTYPE_BF16}}),
                 "input 'x': has dtype BF16, expected F32");
  expectContains(refuse({{{4, 3}, {}, 99}}),
                 "has dtype unknown to this runtime, expected F32");
  EXPECT_EQ(ResolvedCall(artifact->program(), {{{4, 3}, {}, FP8MOE_DTYPE_F32}})
                .status,
            FP8MOE_OK);
}

TEST_F(ResolveTest, StridesThatDoNotMatter) {
  load(makeTwiceProgram());
  // One row, and tensors without elements.
  for (ResolvedCall::Input input : {ResolvedCall::Input{{1, 3}, {77, 1}},
                                    {{1, 3}, {-3, 1}},
                                    {{0, 3}, {0, 0}}}) {
    ResolvedCall call(artifact->program(), {input});
    EXPECT_EQ(call.status, FP8MOE_OK) << call.error;
    EXPECT_EQ(fp8moe_call_input(call.get(), 0)->strides[0], 3);
  }
}

TEST_F(ResolveTest, InputsMustAgree) {
  // The extent of the second input must be ceildiv(dim 0 of the first, 32).
  json program =
      makeSizesProgram({{{"op", "dim"}, {"args", {0, 0}}},
                        {{"op", "ceildiv"}, {"args", {{{"value", 0}}, 32}}}},
                       {0, 0, 0});
  program["buffers"].push_back({{"role", "input"},
                                {"name", "scale"},
                                {"dtype", "F8_E8M0"},
                                {"shape", {{{"value", 1}}}},
                                {"strides", {1}},
                                {"align", 1}});
  load(program);
  EXPECT_EQ(
      ResolvedCall(artifact->program(), {{{33, 1}, {}}, {{2}, {}}}).status,
      FP8MOE_OK);
  expectContains(refuse({{{33, 1}, {}}, {{1}, {}}}),
                 "input 'scale': dim 0 is 1, expected 2");
}

TEST_F(ResolveTest, Requirements) {
  json program =
      makeSizesProgram({{{"op", "stride"}, {"args", {0, 0}}},
                        {{"op", "rem"}, {"args", {{{"value", 0}}, 4}}},
                        {{"op", "eq"}, {"args", {{{"value", 1}}, 0}}}},
                       {0, 0, 0});
  program["requires"] = {
      {{"cond", 1}, {"message", "never"}},
      {{"cond", {{"value", 2}}}, {"message", "stride 0 must be whole"}}};
  load(program);
  EXPECT_EQ(ResolvedCall(artifact->program(), {{{5, 3}, {8, 1}}}).status,
            FP8MOE_OK);
  EXPECT_EQ(refuse({{{5, 3}, {}}}), "program 'sizes': stride 0 must be whole");
  // With one row or no elements, the stride does not matter.
  EXPECT_EQ(ResolvedCall(artifact->program(), {{{1, 3}, {7, 1}}}).status,
            FP8MOE_OK);
  EXPECT_EQ(ResolvedCall(artifact->program(), {{{5, 0}, {7, 1}}}).status,
            FP8MOE_OK);
}

} // namespace
