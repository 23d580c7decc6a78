//===- RunTest.cpp - Running programs on the CPU --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"

#include <cstdlib>
#include <memory>
#include <thread>

using namespace fp8moe::runtime::test;

namespace {

struct Free {
  void operator()(void *pointer) const { std::free(pointer); }
};
template <typename T> using Memory = std::unique_ptr<T[], Free>;

/// Returns memory aligned to 256 bytes.
template <typename T> Memory<T> allocate(size_t count) {
  size_t bytes = (count * sizeof(T) + 255) / 256 * 256;
  return Memory<T>(static_cast<T *>(std::aligned_alloc(256, bytes)));
}

class RunTest : public ::testing::Test {
protected:
  void load(json program, const char *device = "cpu") {
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({std::move(program)}));
    artifact = std::make_unique<LoadedArtifact>(folder.path(), device);
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  }

  const fp8moe_program *program() const { return artifact->program(); }

  TestArtifact folder;
  std::unique_ptr<LoadedArtifact> artifact;
};

/// Runs a call of program "twice" with `m` rows and checks the result.
void checkTwice(const fp8moe_program *program, int64_t m) {
  ResolvedCall call(program, {{{m, 3}, {}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  const fp8moe_buffer *y = fp8moe_call_output(call.get(), 0);
  ASSERT_EQ(y->bytes, uint64_t(m) * 3 * 4);
  Memory<float> in = allocate<float>(m * 3), out = allocate<float>(m * 3);
  for (int64_t i = 0; i < m * 3; ++i) {
    in[i] = float(i);
    out[i] = -1;
  }
  const void *inputs[] = {in.get()};
  void *outputs[] = {out.get()};
  ASSERT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK)
      << fp8moe_last_error();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < 3; ++j)
      ASSERT_EQ(out[i + j * m], 2 * in[i * 3 + j]) << i << ", " << j;
}

TEST_F(RunTest, ProgramIsDescribed) {
  load(makeTwiceProgram());
  EXPECT_STREQ(fp8moe_artifact_chip(artifact->get()), "cpu");
  EXPECT_STREQ(fp8moe_artifact_binary(artifact->get()), "kernels.so");
  ASSERT_EQ(fp8moe_artifact_num_programs(artifact->get()), 1u);
  EXPECT_STREQ(fp8moe_program_name(program()), "twice");
  EXPECT_EQ(fp8moe_artifact_find_program(artifact->get(), "twice"), program());
  ASSERT_EQ(fp8moe_program_num_inputs(program()), 1u);
  ASSERT_EQ(fp8moe_program_num_outputs(program()), 1u);

  const fp8moe_buffer *x = fp8moe_program_input(program(), 0);
  EXPECT_STREQ(x->name, "x");
  EXPECT_EQ(x->dtype, FP8MOE_DTYPE_F32);
  EXPECT_STREQ(x->dtype_name, "F32");
  ASSERT_EQ(x->rank, 2);
  EXPECT_EQ(x->shape[0], FP8MOE_DYNAMIC);
  EXPECT_EQ(x->shape[1], 3);
  EXPECT_EQ(x->strides[0], 3);
  EXPECT_EQ(x->align, 16u);
  EXPECT_EQ(fp8moe_program_output(program(), 0)->strides[1], FP8MOE_DYNAMIC);
}

TEST_F(RunTest, UnknownNamesAndIndices) {
  load(makeTwiceProgram());
  EXPECT_EQ(fp8moe_artifact_find_program(artifact->get(), "thrice"), nullptr);
  EXPECT_EQ(fp8moe_last_status(), FP8MOE_NOT_FOUND);
  expectContains(fp8moe_last_error(),
                 "there is no program 'thrice'; the artifact has 'twice'");
  EXPECT_EQ(fp8moe_artifact_program(artifact->get(), 1), nullptr);
  EXPECT_EQ(fp8moe_program_input(program(), 1), nullptr);
  EXPECT_EQ(fp8moe_program_output(nullptr, 0), nullptr);
  EXPECT_EQ(fp8moe_last_status(), FP8MOE_INVALID_ARGUMENT);
}

TEST_F(RunTest, OneProgramManySizes) {
  load(makeTwiceProgram());
  for (int64_t m : {1, 2, 7, 1000})
    checkTwice(program(), m);
}

TEST_F(RunTest, BlockOfArguments) {
  load(makeTwiceProgram());
  ResolvedCall call(program(), {{{2, 3}, {}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  Memory<float> in = allocate<float>(6), out = allocate<float>(6);
  for (int i = 0; i < 6; ++i)
    in[i] = float(i);
  struct {
    fp8moe_run_block block;
    const void *input;
    void *output;
  } arguments = {{call.get(), nullptr, 0, nullptr}, in.get(), out.get()};
  ASSERT_EQ(fp8moe_call_run_block(&arguments.block, sizeof(arguments)),
            FP8MOE_OK)
      << fp8moe_last_error();
  EXPECT_EQ(out[1], 2 * in[3]);
  EXPECT_EQ(fp8moe_call_run_block(&arguments.block, sizeof(arguments) - 8),
            FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(), "the block has 40 bytes, expected 48");
  EXPECT_EQ(fp8moe_call_run_block(nullptr, 0), FP8MOE_INVALID_ARGUMENT);
}

TEST_F(RunTest, ThreadsShareACall) {
  load(makeTwiceProgram());
  ResolvedCall call(program(), {{{100, 3}, {}}});
  std::vector<std::thread> threads;
  std::vector<int> failures(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Memory<float> in = allocate<float>(300), out = allocate<float>(300);
      for (int round = 0; round < 200; ++round) {
        for (int i = 0; i < 300; ++i)
          in[i] = float(t * 1000 + round + i);
        const void *inputs[] = {in.get()};
        void *outputs[] = {out.get()};
        failures[t] += fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0,
                                       nullptr) != FP8MOE_OK;
        for (int i = 0; i < 300; ++i)
          failures[t] += out[i / 3 + i % 3 * 100] != 2 * in[i];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, std::vector<int>(8));
}

TEST_F(RunTest, MessagesBelongToTheirThread) {
  load(makeTwiceProgram());
  EXPECT_EQ(fp8moe_program_input(program(), 5), nullptr);
  std::string here = fp8moe_last_error();
  std::thread([&] {
    EXPECT_STREQ(fp8moe_last_error(), "");
    fp8moe_program_output(program(), 5);
  }).join();
  EXPECT_EQ(here, fp8moe_last_error());
}

TEST_F(RunTest, CallOutlivesItsArtifact) {
  load(makeTwiceProgram());
  auto call = std::make_unique<ResolvedCall>(
      program(), std::vector<ResolvedCall::Input>{{{1, 3}, {}}});
  artifact.reset();
  Memory<float> in = allocate<float>(3), out = allocate<float>(3);
  in[0] = in[1] = in[2] = 21;
  const void *inputs[] = {in.get()};
  void *outputs[] = {out.get()};
  EXPECT_EQ(fp8moe_call_run(call->get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK);
  EXPECT_EQ(out[2], 42);
}

TEST_F(RunTest, EmptyTensorsMayBeNull) {
  load(makeTwiceProgram());
  ResolvedCall call(program(), {{{0, 3}, {}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  EXPECT_EQ(fp8moe_call_output(call.get(), 0)->bytes, 0u);
  const void *inputs[] = {nullptr};
  void *outputs[] = {nullptr};
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK)
      << fp8moe_last_error();
}

TEST_F(RunTest, BadPointers) {
  load(makeTwiceProgram());
  ResolvedCall call(program(), {{{4, 3}, {}}});
  Memory<char> memory = allocate<char>(4096);
  auto run = [&](const void *in, void *out) -> std::string {
    const void *inputs[] = {in};
    void *outputs[] = {out};
    fp8moe_status status =
        fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr);
    EXPECT_EQ(status, FP8MOE_INVALID_ARGUMENT);
    return fp8moe_last_error();
  };
  char *base = memory.get();
  expectContains(
      run(nullptr, base),
      "program 'twice': input 'x': the pointer is null, expected 48");
  expectContains(run(base, nullptr), "output 'y': the pointer is null");
  expectContains(run(base + 4, base + 256), "input 'x': the pointer 0x");
  expectContains(run(base + 4, base + 256), "is not aligned to 16 bytes");
  expectContains(run(base, base + 32), "output 'y': overlaps input 'x'");
  expectContains(run(reinterpret_cast<void *>(UINTPTR_MAX - 15), base),
                 "too close to the end of memory");
  const void *inputs[] = {base};
  void *outputs[] = {base + 48};
  // Adjacent buffers do not overlap.
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK);
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, base),
            FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(), "the stream must be null on the CPU");
  EXPECT_EQ(fp8moe_call_run(call.get(), nullptr, outputs, nullptr, 0, nullptr),
            FP8MOE_INVALID_ARGUMENT);
  EXPECT_EQ(fp8moe_call_run(nullptr, inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_INVALID_ARGUMENT);
}

TEST_F(RunTest, InPlace) {
  json twice = makeTwiceProgram();
  twice["buffers"][1]["strides"] = {3, 1};
  twice["buffers"][1]["may_overwrite"] = 0;
  twice["launches"][0]["args"] = {
      {{"buffer", 0}}, {{"buffer", 1}}, {{"value", 0}}, 3, 3, 1};
  load(twice);
  ResolvedCall call(program(), {{{2, 3}, {}}});
  Memory<float> memory = allocate<float>(12);
  float *x = memory.get();
  for (int i = 0; i < 6; ++i)
    x[i] = i;
  const void *inputs[] = {x};
  void *outputs[] = {x};
  ASSERT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK)
      << fp8moe_last_error();
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(x[i], 2 * i);
  outputs[0] = x + 4;
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(),
                 "output 'y': overlaps input 'x', whose memory it may only "
                 "have as a whole");
}

/// An output with other strides than its input cannot overwrite it.
TEST_F(RunTest, NotInPlaceWithOtherStrides) {
  json twice = makeTwiceProgram();
  twice["buffers"][1]["may_overwrite"] = 0;
  load(twice);
  ResolvedCall call(program(), {{{2, 3}, {}}});
  Memory<float> memory = allocate<float>(6);
  const void *inputs[] = {memory.get()};
  void *outputs[] = {memory.get()};
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_INVALID_ARGUMENT);
  EXPECT_STREQ(fp8moe_last_error(),
               "program 'twice': output 'y': overlaps input 'x'");
}

/// Two workspace buffers: 5 bytes aligned to 1, and 4 x M aligned to 256.
json makeWorkspaceProgram() {
  return json::parse(R"({
    "name": "workspaces",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "U8", "shape": [{"dim": [0, 0]}],
       "strides": [1], "align": 1},
      {"role": "workspace", "dtype": "U8", "shape": [5], "strides": [1],
       "align": 1},
      {"role": "workspace", "dtype": "F32", "shape": [{"value": 0}],
       "strides": [1], "align": 256},
      {"role": "output", "name": "out", "dtype": "I64", "shape": [2],
       "strides": [1], "align": 8}],
    "values": [{"op": "dim", "args": [0, 0]}],
    "launches": [
      {"kernel": "addresses", "grid": [1, 1, 1], "block": [1, 1, 1],
       "shared": 0, "args": [{"buffer": 3}, {"buffer": 1}, {"buffer": 2}]}]
  })");
}

TEST_F(RunTest, WorkspaceIsSliced) {
  load(makeWorkspaceProgram());
  ResolvedCall call(program(), {{{10}, {}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  EXPECT_EQ(fp8moe_call_workspace_bytes(call.get()), 256u + 40u);
  EXPECT_EQ(fp8moe_call_workspace_align(call.get()), 256u);
  json description = call.describe();
  EXPECT_EQ(description["buffers"][1]["offset"], 0);
  EXPECT_EQ(description["buffers"][2]["offset"], 256);
  EXPECT_EQ(description["buffers"][2]["bytes"], 40);

  Memory<char> in = allocate<char>(10), workspace = allocate<char>(1024);
  Memory<int64_t> out = allocate<int64_t>(2);
  const void *inputs[] = {in.get()};
  void *outputs[] = {out.get()};
  auto run = [&](void *address, uint64_t bytes) {
    return fp8moe_call_run(call.get(), inputs, outputs, address, bytes,
                           nullptr);
  };
  ASSERT_EQ(run(workspace.get(), 296), FP8MOE_OK) << fp8moe_last_error();
  EXPECT_EQ(out[0], reinterpret_cast<int64_t>(workspace.get()));
  EXPECT_EQ(out[1], reinterpret_cast<int64_t>(workspace.get() + 256));

  EXPECT_EQ(run(workspace.get(), 295), FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(),
                 "the workspace has 295 bytes, expected at least 296");
  EXPECT_EQ(run(nullptr, 296), FP8MOE_INVALID_ARGUMENT);
  EXPECT_EQ(run(workspace.get() + 128, 296), FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(), "is not aligned to 256 bytes");
  inputs[0] = workspace.get() + 290;
  EXPECT_EQ(run(workspace.get(), 296), FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(), "input 'x': overlaps the workspace");
}

TEST_F(RunTest, LaunchesAreSkipped) {
  // Only the second launch runs. The first has a false condition, the third an
  // empty grid.
  json program =
      makeSizesProgram({{{"op", "dim"}, {"args", {0, 0}}},
                        {{"op", "lt"}, {"args", {{{"value", 0}}, 5}}}},
                       {1, 2, 3});
  json launch = program["launches"][0];
  program["launches"] = {launch, launch, launch};
  program["launches"][0]["when"] = {{"value", 1}};
  program["launches"][1]["when"] = 1;
  program["launches"][1]["args"][1] = 11;
  program["launches"][2]["grid"] = {1, 0, 1};
  load(program);
  ResolvedCall large(this->program(), {{{5, 1}, {}}});
  ASSERT_EQ(large.status, FP8MOE_OK) << large.error;
  json launches = large.describe()["launches"];
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["args"], json::parse(R"([{"buffer": 1}, 11, 2, 3])"));
  ResolvedCall small(this->program(), {{{4, 1}, {}}});
  EXPECT_EQ(small.describe()["launches"].size(), 2u);
}

TEST_F(RunTest, DeviceNoneDescribesOnly) {
  load(makeTwiceProgram(), "none");
  EXPECT_STREQ(fp8moe_artifact_binary(artifact->get()), "");
  ResolvedCall call(program(), {{{4, 3}, {}}});
  json description = call.describe();
  EXPECT_EQ(description["program"], "twice");
  EXPECT_EQ(description["chip"], "cpu");
  EXPECT_EQ(description["workspace"],
            json::parse(R"({"bytes": 0, "align": 1})"));
  EXPECT_EQ(description["buffers"][1], json::parse(R"({
    "role": "output", "name": "y", "dtype": "F32", "shape": [4, 3],
    "strides": [1, 4], "bytes": 48, "align": 16})"));
  EXPECT_EQ(description["launches"], json::parse(R"([{
    "kernel": "twice", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0,
    "args": [{"buffer": 0}, {"buffer": 1}, 4, 3, 1, 4]}])"));
  Memory<char> memory = allocate<char>(256);
  const void *inputs[] = {memory.get()};
  void *outputs[] = {memory.get() + 128};
  EXPECT_EQ(fp8moe_call_run(call.get(), inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_INVALID_ARGUMENT);
  expectContains(fp8moe_last_error(), "device 'none'");
}

} // namespace
