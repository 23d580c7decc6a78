//===- LaunchTest.cpp - What launches ask for beyond a grid ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests tensor maps, clusters, cooperative and programmatic launches, device
// attributes and alignment of addresses. The mock driver records its calls and
// has three multiprocessors.
//
//===----------------------------------------------------------------------===//

#include "GpuMock.h"

using namespace fp8moe::runtime::test;

namespace {

/// Program "copy" has input x [M, N] with dynamic strides. It launches kernel
/// `tma` with a tensor map of the first 64 columns, `x` and M.
json makeCopyProgram() {
  return json::parse(R"({
    "name": "copy",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "BF16",
       "shape": [{"dim": [0, 0]}, {"dim": [0, 1]}],
       "strides": [{"stride": [0, 0]}, 1], "align": 2}],
    "values": [{"op": "dim", "args": [0, 0]},
               {"op": "stride", "args": [0, 0]},
               {"op": "device_attr", "args": ["multiprocessors"]},
               {"op": "aligned", "args": [0, 64]},
               {"op": "ne", "args": [{"value": 3}, 1]},
               {"op": "select", "args": [{"value": 3}, 100, {"value": 0}]}],
    "tensor_maps": [
      {"buffer": 0, "offset": 8, "sizes": [64, {"value": 0}],
       "strides": [{"value": 1}], "box": [64, 16], "swizzle": 128,
       "promotion": 256}],
    "launches": [
      {"kernel": "tma", "grid": [{"value": 2}, 1, 1], "block": [128, 1, 1],
       "shared": 1024, "cooperative": true,
       "args": [{"tensor_map": 0}, {"buffer": 0}, {"value": 0}]}]
  })");
}

class LaunchTest : public GpuMockTest {
protected:
  void loadProgram(const json &program) {
    load(cuda, makeManifest(program));
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  }

  /// Runs on x [m, n] with this pitch at an address. Returns the driver's log,
  /// or the message.
  std::string run(uintptr_t address, int64_t m, int64_t n, int64_t pitch) {
    ResolvedCall call(artifact->program(), {{{m, n}, {pitch, 1}}});
    if (call.status != FP8MOE_OK)
      return call.error;
    size_t before = driver->log().size();
    const void *inputs[] = {reinterpret_cast<void *>(address)};
    if (fp8moe_call_run(call.get(), inputs, nullptr, nullptr, 0, nullptr) !=
        FP8MOE_OK)
      return fp8moe_last_error();
    return driver->log().substr(before);
  }

  /// Returns the message of a refused manifest.
  std::string refuse(const json &manifest, const Vendor &vendor = cuda) {
    load(vendor, manifest);
    EXPECT_EQ(artifact->status, FP8MOE_INVALID_ARTIFACT);
    return artifact->error;
  }
};

TEST_F(LaunchTest, TensorMap) {
  loadProgram(makeCopyProgram());
  EXPECT_EQ(run(0x1000, 100, 72, 80),
            "cooperative 1 map type 9 at 0x1010 64/64 100/16*160 swizzle 3 "
            "promotion 3 launch tma grid 3 1 1 block 128 1 1 shared 1024 "
            "stream (nil) args 0x1000 100\n");
  // Hardware has no empty dimension, so the map has one element, which is not
  // read.
  expectContains(run(0x1008, 0, 72, 80), "at 0x10 1/64 1/16*32 ");
  // With one row, its stride does not matter.
  expectContains(run(0x1000, 1, 72, 7), "64/64 1/16*32 ");
}

// Hardware faults on a map with an invalid base address, even if all copies are
// out of bounds.
TEST_F(LaunchTest, TensorMapOfNothingBeginsInAnotherBuffer) {
  json program = makeCopyProgram();
  json y = json::parse(R"({"role": "input", "name": "y", "dtype": "I32",
                           "shape": [3], "strides": [1], "align": 4})");
  program["buffers"].push_back(y);
  loadProgram(program);
  ResolvedCall call(artifact->program(), {{{0, 72}, {80, 1}}, {{3}, {1}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  const void *inputs[] = {nullptr, reinterpret_cast<void *>(0x2004)};
  size_t before = driver->log().size();
  ASSERT_EQ(fp8moe_call_run(call.get(), inputs, nullptr, nullptr, 0, nullptr),
            FP8MOE_OK);
  expectContains(driver->log().substr(before), "at 0x2000 1/64 1/16*32 ");
}

TEST_F(LaunchTest, TensorMapThatTheHardwareLacks) {
  loadProgram(makeCopyProgram());
  const std::string where = "program 'copy': tensor map 0 of input 'x': ";
  EXPECT_EQ(run(0x1008, 100, 72, 80),
            where + "it begins at 0x1018, which is not a multiple of 16 bytes");
  EXPECT_EQ(run(0x1000, 100, 72, 84),
            where + "the stride of dimension 1 from the innermost is 84 "
                    "elements or 168 bytes, expected a multiple of 16 bytes "
                    "below 2^40");
  EXPECT_EQ(run(0x1000, 2, 70, 80),
            where + "it ends after 304 bytes, but the buffer has 300");
  // The driver refuses this map itself.
  json program = makeCopyProgram();
  json &map = program["tensor_maps"][0];
  map["sizes"] = {64, 1, 1, 1, 1};
  map["strides"] = {8, 8, 8, 8};
  map["box"] = {64, 1, 1, 1, 1};
  loadProgram(program);
  EXPECT_EQ(run(0x1000, 2, 72, 80), where + "cuda:1: cuTensorMapEncodeTiled: "
                                            "MOCK_ERROR (mock error)");
}

TEST_F(LaunchTest, SkippedLaunchesNeedNoTensorMap) {
  json program = makeCopyProgram();
  program["launches"][0]["when"] = {{"value", 3}};
  loadProgram(program);
  // Neither the address nor the pitch is aligned, but nothing is launched.
  EXPECT_EQ(run(0x1002, 100, 72, 77), "");
  expectContains(run(0x1040, 100, 72, 77), "the stride of dimension 1");
  expectContains(run(0x1040, 100, 72, 80), "launch tma");
  program["launches"][0]["when"] = 0;
  loadProgram(program);
  EXPECT_EQ(run(0x1002, 0, 72, 77), "");
}

TEST_F(LaunchTest, AlignmentChoosesTheLaunchAndArguments) {
  json program = makeCopyProgram();
  json launch = {
      {"kernel", "fast"},       {"grid", {1, 1, 1}},
      {"block", {1, 1, 1}},     {"shared", 0},
      {"when", {{"value", 3}}}, {"args", {{{"buffer", 0}}, {{"value", 5}}}}};
  program["launches"] = {launch, launch};
  program["launches"][1]["kernel"] = "slow";
  program["launches"][1]["when"] = {{"value", 4}};
  loadProgram(program);
  const char *rest = " grid 1 1 1 block 1 1 1 shared 0 stream (nil) args ";
  EXPECT_EQ(run(0x1040, 7, 72, 80),
            std::string("launch fast") + rest + "0x1040 100\n");
  EXPECT_EQ(run(0x1020, 7, 72, 80),
            std::string("launch slow") + rest + "0x1020 7\n");
  // `describe` assumes aligned addresses.
  ResolvedCall call(artifact->program(), {{{7, 72}, {80, 1}}});
  json launches = call.describe()["launches"];
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["kernel"], "fast");
  EXPECT_EQ(launches[0]["args"][1], 100);
}

TEST_F(LaunchTest, TensorMapsAreDescribed) {
  json program = makeCopyProgram();
  program["launches"][0]["cluster"] = {1, 1, 1};
  program["launches"][0]["programmatic"] = true;
  loadProgram(program);
  ResolvedCall call(artifact->program(), {{{100, 72}, {80, 1}}});
  json launch = call.describe()["launches"][0];
  EXPECT_EQ(launch["cooperative"], true);
  EXPECT_EQ(launch["cluster"], json({1, 1, 1}));
  EXPECT_EQ(launch["programmatic"], true);
  EXPECT_EQ(launch["args"][0], json::parse(R"({"tensor_map": {
    "buffer": 0, "offset": 16, "sizes": [64, 100], "strides": [160],
    "box": [64, 16], "swizzle": 128, "promotion": 256}})"));
}

TEST_F(LaunchTest, MultiprocessorsWithoutADevice) {
  load(cuda, makeManifest(makeCopyProgram()));
  LoadedArtifact none(folder.path(), "none");
  ResolvedCall call(none.program(), {{{100, 72}, {80, 1}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  EXPECT_EQ(call.describe()["launches"][0]["grid"], json({1, 1, 1}));
}

TEST_F(LaunchTest, CooperativeLaunchMustFit) {
  json program = makeCopyProgram();
  program["launches"][0]["grid"][0] = 6;
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80), "launch tma grid 6 1 1");
  program["launches"][0]["grid"] = {1, 7, 1};
  loadProgram(program);
  EXPECT_EQ(
      run(0x1000, 100, 72, 80),
      "program 'copy', kernel 'tma': the 7 blocks of a cooperative launch "
      "must be resident at once, but 6 fit on the device");
  // Launches that are not cooperative may have more blocks.
  program["launches"][0]["cooperative"] = false;
  program["launches"][0]["cluster"] = {1, 7, 1};
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80), "launch tma grid 1 7 1");
}

TEST_F(LaunchTest, Clusters) {
  json program = makeCopyProgram();
  program["launches"][0]["grid"][0] = 8;
  program["launches"][0]["cluster"] = {4, 1, 1};
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80),
                 "cooperative 1 cluster 4 1 1 map type");
  // Two clusters fit the device.
  program["launches"][0]["grid"][0] = 12;
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80), "the 12 blocks of a cooperative "
                                           "launch must be resident at once, "
                                           "but 8 fit on the device");
  program["launches"][0]["grid"][0] = {{"value", 0}};
  loadProgram(program);
  EXPECT_EQ(
      run(0x1000, 6, 72, 80),
      "program 'copy', kernel 'tma': for these input shapes grid extent x "
      "is 6, expected a multiple of the cluster's 4");
}

TEST_F(LaunchTest, Programmatic) {
  json program = makeCopyProgram();
  program["launches"][0]["programmatic"] = true;
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80),
                 "cooperative 1 programmatic 1 map type");
  program["launches"][0]["cooperative"] = false;
  loadProgram(program);
  expectContains(run(0x1000, 100, 72, 80), "programmatic 1 map type");
}

TEST_F(LaunchTest, HipLaunchesCooperatively) {
  json program = makeCopyProgram();
  program.erase("tensor_maps");
  program["launches"][0]["args"].erase(0);
  load(hip, makeManifest(program, "rocdl"));
  ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  EXPECT_EQ(
      run(0x1000, 100, 72, 80),
      "cooperative launch tma grid 3 1 1 block 128 1 1 shared 1024 stream "
      "(nil) args 0x1000 100\n");
  program["launches"][0]["grid"][0] = 7;
  load(hip, makeManifest(program, "rocdl"));
  expectContains(run(0x1000, 100, 72, 80), "but 6 fit on the device");
}

/// HIP runs a cooperative launch immediately instead of capturing it.
TEST_F(LaunchTest, HipGraphsCaptureNoCooperativeLaunch) {
  json program = makeCopyProgram();
  program.erase("tensor_maps");
  program["launches"][0]["args"].erase(0);
  load(hip, makeManifest(program, "rocdl"));
  driver->setCapturing(true);
  EXPECT_EQ(run(0x1000, 100, 72, 80),
            "hip:1: the stream is captured into a graph, and this call has "
            "cooperative launches, which hipModuleLaunchCooperativeKernel runs "
            "at once instead; call the program outside of the graph, or "
            "compile it with tiles that are not cooperative");
  program["launches"][0]["cooperative"] = false;
  load(hip, makeManifest(program, "rocdl"));
  driver->setCapturing(true);
  expectContains(run(0x1000, 100, 72, 80), "launch tma grid 3 1 1");
}

TEST_F(LaunchTest, OnlyNvvmHasTensorMapsClustersAndProgrammaticLaunches) {
  json program = makeCopyProgram();
  EXPECT_EQ(refuse(makeManifest(program, "rocdl"), hip),
            "manifest.json: programs[0].tensor_maps: only targets of kind "
            "'nvvm' have tensor maps");
  program.erase("tensor_maps");
  program["launches"][0]["args"].erase(0);
  program["launches"][0]["cluster"] = {2, 1, 1};
  EXPECT_EQ(refuse(makeManifest(program, "rocdl"), hip),
            "manifest.json: programs[0].launches[0].cluster: only targets of "
            "kind 'nvvm' have clusters");
  program["launches"][0].erase("cluster");
  program["launches"][0]["programmatic"] = true;
  EXPECT_EQ(refuse(makeManifest(program, "rocdl"), hip),
            "manifest.json: programs[0].launches[0].programmatic: only "
            "targets of kind 'nvvm' have programmatic launches");
}

TEST_F(LaunchTest, MalformedManifests) {
  auto change = [](const char *pointer, json value) {
    json program = makeCopyProgram();
    program[json::json_pointer(pointer)] = std::move(value);
    return makeManifest(program);
  };
  auto expect = [&](const char *pointer, json value, const char *message) {
    expectContains(refuse(change(pointer, std::move(value))), message);
  };
  expect("/tensor_maps/0/sizes", json::array(),
         "tensor_maps[0].sizes: expected 1 to 5 entries");
  expect("/tensor_maps/0/strides", json::array(),
         "strides: expected one entry less than there are sizes");
  expect("/tensor_maps/0/box", json::array({64}),
         "box: expected as many entries as there are sizes");
  expect("/tensor_maps/0/box/1", 257, "box[1]: expected an integer from 1");
  expect("/tensor_maps/0/swizzle", 48, "expected one of 0, 32, 64, 128");
  expect("/tensor_maps/0/promotion", 32, "expected one of 0, 64, 128, 256");
  expect("/tensor_maps/0/buffer", 1, "the index of one of 1 buffers");
  expect("/tensor_maps/0/fill", 1, "unknown key 'fill'");
  expect("/launches/0/args/0/tensor_map", 1,
         "the index of one of 1 tensor maps");
  expect("/launches/0/cluster", json::array({4, 4, 1}), "at most 8 blocks");
  expect("/launches/0/cooperative", 1, "expected true or false, found 1");
  expect("/launches/0/programmatic", 1, "expected true or false, found 1");
  expect("/values/2/args/0", "warps",
         "expected one of 'multiprocessors', 'l2_bytes', 'memory_bandwidth'");
  expect("/values/3/args/1", 48, "expected a power of two");
  // These entries must not depend on addresses, which are known later.
  json late = {{"value", 5}};
  expect("/launches/0/grid/0", late,
         "launches[0].grid[0]: value 5 depends on addresses, which are not "
         "known before the program runs");
  expect("/tensor_maps/0/sizes/1", late, "value 5 depends on addresses");
  expect("/buffers/0/shape/1", late,
         "buffers[0]: a size is value 5, which depends on addresses");
  expect("/requires", json::array({{{"cond", late}, {"message", "m"}}}),
         "requires[0].cond: value 5 depends on addresses");
}

} // namespace
