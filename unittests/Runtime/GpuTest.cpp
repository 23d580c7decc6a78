//===- GpuTest.cpp - GPU artifacts on a driver that records its calls -----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuMock.h"

#include <cstdlib>
#include <fstream>

using namespace fp8moe::runtime::test;

namespace {

/// Program "scale" has kernel (x, M) on a grid of ceildiv(M, 128) x 2.
json makeGpuManifest(const char *chip, const char *kind, json binaries) {
  json program = json::parse(R"({
    "name": "scale",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "BF16", "shape": [{"dim": [0, 0]}],
       "strides": [1], "align": 16}],
    "values": [{"op": "dim", "args": [0, 0]},
               {"op": "ceildiv", "args": [{"value": 0}, 128]}],
    "launches": [
      {"kernel": "amax", "grid": [{"value": 1}, 2, 1], "block": [256, 1, 1],
       "shared": 1024, "args": [{"buffer": 0}, {"value": 0}]},
      {"kernel": "cast", "grid": [7, {"value": 1}, 1], "block": [32, 2, 1],
       "shared": 65536, "args": [{"buffer": 0}, -1]}]
  })");
  return {{"schema", 1},
          {"min_runtime", "0.1.0"},
          {"producer", "test"},
          {"target", {{"chip", chip}, {"kind", kind}, {"fp8", "fn"}}},
          {"binaries", std::move(binaries)},
          {"programs", {program}},
          {"decisions", json::array()}};
}

class GpuTest : public GpuMockTest {
protected:
  /// Runs on `m` elements in a made-up stream.
  fp8moe_status run(int64_t m) {
    ResolvedCall call(artifact->program(), {{{m}, {}}});
    EXPECT_EQ(call.status, FP8MOE_OK) << call.error;
    const void *inputs[] = {reinterpret_cast<void *>(0x1000)};
    return fp8moe_call_run(call.get(), inputs, nullptr, nullptr, 0,
                           reinterpret_cast<void *>(0x5));
  }
};

TEST_F(GpuTest, CudaRunsTheCubin) {
  load(cuda, makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  EXPECT_STREQ(fp8moe_artifact_binary(artifact->get()), "kernels.cubin");
  ASSERT_EQ(run(300), FP8MOE_OK) << fp8moe_last_error();
  // The caller's context is unchanged.
  EXPECT_EQ(driver->currentContext(), nullptr);
  artifact.reset();
  EXPECT_EQ(driver->log(),
            "retain 1\n"
            "load CUBIN\n"
            "attribute amax 8 1024\n"
            "attribute cast 8 65536\n"
            "launch amax grid 3 2 1 block 256 1 1 shared 1024 stream 0x5 "
            "args 0x1000 300\n"
            "launch cast grid 7 3 1 block 32 2 1 shared 65536 stream 0x5 "
            "args 0x1000 -1\n"
            "unload\n"
            "release 1\n");
}

TEST_F(GpuTest, HipRunsTheHsaco) {
  load(hip, makeGpuManifest("gfx942", "rocdl", hsaco));
  ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  ASSERT_EQ(run(128), FP8MOE_OK) << fp8moe_last_error();
  artifact.reset();
  EXPECT_EQ(driver->log(),
            "retain 1\n"
            "load HSACO\n"
            "launch amax grid 1 2 1 block 256 1 1 shared 1024 stream 0x5 "
            "args 0x1000 128\n"
            "launch cast grid 7 1 1 block 32 2 1 shared 65536 stream 0x5 "
            "args 0x1000 -1\n"
            "unload\n"
            "release 1\n");
}

TEST_F(GpuTest, FailedLoadKeepsNoContext) {
  load(hip, makeGpuManifest("gfx942", "rocdl", hsaco));
  driver->reset(/*major=*/-1, /*minor=*/0);
  artifact = std::make_unique<LoadedArtifact>(folder.path(), hip.device);
  EXPECT_EQ(artifact->status, FP8MOE_DEVICE_ERROR);
  expectContains(artifact->error, "hipDeviceGetAttribute");
  EXPECT_EQ(driver->log().find("retain"), std::string::npos);
}

TEST_F(GpuTest, EmptyGridLaunchesNothing) {
  load(cuda, makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  std::string before = driver->log();
  EXPECT_EQ(run(0), FP8MOE_OK);
  EXPECT_EQ(driver->log(), before);
}

TEST_F(GpuTest, PtxIsTheFallback) {
  // The driver refuses the cubin, so the PTX is used.
  load(cuda, makeGpuManifest("sm_90", "nvvm", cubinAndPtx), "bad CUBIN");
  ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  EXPECT_STREQ(fp8moe_artifact_binary(artifact->get()), "kernels.ptx");
  // A cubin for 9.0 is not tried on a device with 10.0.
  driver->reset(10, 0);
  reload(cuda);
  EXPECT_STREQ(fp8moe_artifact_binary(artifact->get()), "kernels.ptx");
  EXPECT_EQ(driver->log().find("CUBIN"), std::string::npos);
}

TEST_F(GpuTest, ChipMustFit) {
  load(cuda, makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  auto fits = [&](int major, int minor) {
    driver->reset(major, minor);
    reload(cuda);
    return artifact->status == FP8MOE_OK;
  };
  EXPECT_TRUE(fits(9, 0));
  EXPECT_FALSE(fits(9, 1));
  EXPECT_FALSE(fits(10, 0));
  EXPECT_EQ(artifact->status, FP8MOE_UNSUPPORTED);
  EXPECT_EQ(artifact->error,
            "the artifact for sm_90a does not run on device 'cuda:1'; "
            "kernels.cubin: the device has compute capability 10.0; "
            "kernels.ptx: the device has compute capability 10.0");

  folder.writeManifest(makeGpuManifest("sm_100f", "nvvm", cubinAndPtx));
  EXPECT_TRUE(fits(10, 3));
  EXPECT_FALSE(fits(12, 0));
  folder.writeManifest(makeGpuManifest("sm_90", "nvvm", cubinAndPtx));
  EXPECT_TRUE(fits(12, 0));
  EXPECT_FALSE(fits(8, 9));
  folder.writeManifest(makeGpuManifest("gfx942", "nvvm", cubinAndPtx));
  EXPECT_FALSE(fits(9, 0));
  expectContains(artifact->error, "'gfx942' is no CUDA chip");
  for (const char *chip : {"sm_", "sm_90b", "sm_90aa", "sm_-90", "sm_9"}) {
    folder.writeManifest(makeGpuManifest(chip, "nvvm", cubinAndPtx));
    EXPECT_FALSE(fits(9, 0)) << chip;
  }
}

TEST_F(GpuTest, NoSuchDevice) {
  load({"cuda:2", cuda.variable, cuda.library},
       makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  EXPECT_EQ(artifact->status, FP8MOE_NOT_FOUND);
  expectContains(artifact->error,
                 "there is no device 'cuda:2': found 2 cuda devices");
}

TEST_F(GpuTest, NoDriver) {
  folder.write("kernels.cubin", "CUBIN");
  folder.write("kernels.ptx", "PTX");
  folder.writeManifest(makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  ::setenv(cuda.variable, "/nonexistent/libcuda.so", /*overwrite=*/1);
  LoadedArtifact none(folder.path(), "cuda:0");
  EXPECT_EQ(none.status, FP8MOE_NOT_FOUND);
  expectContains(none.error, "cannot open the cuda driver that "
                             "FP8MOE_CUDA_DRIVER names: /nonexistent");
  // The library is not a driver.
  ::setenv(cuda.variable, FP8MOE_MOCK_HIP, /*overwrite=*/1);
  LoadedArtifact other(folder.path(), "cuda:0");
  EXPECT_EQ(other.status, FP8MOE_UNSUPPORTED);
  expectContains(other.error, "the cuda driver has no cuInit");
}

/// torch's ROCm wheels put the library next to torch, where the loader does not
/// look.
TEST_F(GpuTest, TakesTheLoadedDriver) {
  std::string copy = folder.path() + "/libamdhip64.so.7";
  std::ifstream from(FP8MOE_MOCK_HIP, std::ios::binary);
  std::ofstream(copy, std::ios::binary) << from.rdbuf();
  folder.write("kernels.hsaco", "HSACO");
  folder.writeManifest(makeGpuManifest("gfx942", "rocdl", hsaco));
  ::unsetenv(hip.variable);
  LoadedArtifact before(folder.path(), hip.device);
  EXPECT_EQ(before.status, FP8MOE_NOT_FOUND);
  void *loaded = ::dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr);
  {
    LoadedArtifact after(folder.path(), hip.device);
    EXPECT_EQ(after.status, FP8MOE_OK) << after.error;
  }
  auto *log = reinterpret_cast<const char *(*)()>(::dlsym(loaded, "mock_log"));
  expectContains(log(), "load HSACO");
  ::dlclose(loaded);
}

TEST_F(GpuTest, MissingKernel) {
  json manifest = makeGpuManifest("sm_90a", "nvvm", cubinAndPtx);
  manifest["programs"][0]["launches"][0]["kernel"] = "missing";
  load(cuda, manifest);
  EXPECT_EQ(artifact->status, FP8MOE_INVALID_ARTIFACT);
  expectContains(artifact->error, "kernels.cubin: has no kernel 'missing'");
}

TEST_F(GpuTest, LaunchFails) {
  load(cuda, makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  driver->reset(9, 0, /*launchResult=*/700);
  EXPECT_EQ(run(1), FP8MOE_DEVICE_ERROR);
  EXPECT_STREQ(fp8moe_last_error(),
               "cuda:1: cuLaunchKernel: MOCK_ERROR (mock error)");
  EXPECT_EQ(driver->currentContext(), nullptr);
}

TEST_F(GpuTest, GridLimits) {
  load(cuda, makeGpuManifest("sm_90a", "nvvm", cubinAndPtx));
  ResolvedCall call(artifact->program(), {{{int64_t(128) * 65536}, {}}});
  EXPECT_EQ(call.status, FP8MOE_OUT_OF_RANGE);
  expectContains(call.error, "kernel 'cast': for these input shapes grid "
                             "extent y is 65536, expected 0 to 65535");
}

TEST_F(GpuTest, HipThreadLimit) {
  // x is limited to 2^32 threads of 256 each, y to 65535.
  json manifest = makeGpuManifest("gfx942", "rocdl", hsaco);
  manifest["programs"][0]["launches"].erase(1);
  load(hip, manifest);
  ResolvedCall call(artifact->program(), {{{int64_t(128) << 24}, {}}});
  EXPECT_EQ(call.status, FP8MOE_OUT_OF_RANGE);
  expectContains(call.error, "x is 16777216, expected 0 to 16777215");
}

} // namespace
