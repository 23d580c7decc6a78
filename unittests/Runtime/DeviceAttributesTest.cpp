//===- DeviceAttributesTest.cpp - What programs ask about their device ----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses a mock driver whose attributes the test sets.
//
//===----------------------------------------------------------------------===//

#include "GpuMock.h"

#include <climits>

using namespace fp8moe::runtime::test;

namespace {

constexpr int mebi = 1 << 20;
constexpr int refused = -1;

/// Program "choose" has input x [M, 1024] of bf16. Kernel "fits" runs if M rows
/// have at most half of the L2 cache's bytes, else kernel "rest". Each gets x
/// and the value `attribute`.
json makeProgram(const char *attribute) {
  json program = json::parse(R"({
    "name": "choose",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "BF16",
       "shape": [{"dim": [0, 0]}, 1024], "strides": [1024, 1], "align": 2}],
    "values": [{"op": "dim", "args": [0, 0]},
               {"op": "device_attr", "args": ["l2_bytes"]},
               {"op": "mul", "args": [{"value": 1}, 50]},
               {"op": "div", "args": [{"value": 2}, 100]},
               {"op": "div", "args": [{"value": 3}, 2048]},
               {"op": "le", "args": [{"value": 0}, {"value": 4}]},
               {"op": "ne", "args": [{"value": 5}, 1]}],
    "launches": [
      {"kernel": "fits", "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0,
       "when": {"value": 5}, "args": [{"buffer": 0}, {"value": 7}]},
      {"kernel": "rest", "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0,
       "when": {"value": 6}, "args": [{"buffer": 0}, {"value": 7}]}]
  })");
  program["values"].push_back({{"op", "device_attr"}, {"args", {attribute}}});
  return program;
}

class DeviceAttributesTest : public GpuMockTest {
protected:
  /// Loads a program on a card. The driver refuses negative attributes.
  void loadOn(int l2Bytes, int kilohertz, int bits, const json &program,
              const Vendor &vendor = cuda) {
    load(vendor, makeManifest(program, &vendor == &hip ? "rocdl" : "nvvm",
                              /*minRuntime=*/"0.2.0"));
    driver->setCard(l2Bytes, kilohertz, bits);
    reload(vendor);
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  }
  void loadWithL2(int bytes) {
    loadOn(bytes, 3201000, 6144, makeProgram("l2_bytes"));
  }

  /// Returns the kernel that runs for this number of rows, or the message.
  std::string choose(int64_t rows) {
    ResolvedCall call(artifact->program(), {{{rows, 1024}, {1024, 1}}});
    if (call.status != FP8MOE_OK)
      return call.error;
    json launches = call.describe()["launches"];
    EXPECT_EQ(launches.size(), 1u);
    return launches[0]["kernel"];
  }
  json describe() {
    ResolvedCall call(artifact->program(), {{{1, 1024}, {1024, 1}}});
    EXPECT_EQ(call.status, FP8MOE_OK) << call.error;
    return call.describe();
  }
};

TEST_F(DeviceAttributesTest, AnotherCardTakesTheOtherAlternative) {
  // Half of an H200's cache is 15360 rows of 2 KiB, of an H100's 12800.
  loadWithL2(60 * mebi);
  EXPECT_EQ(choose(12801), "fits");
  EXPECT_EQ(choose(15360), "fits");
  EXPECT_EQ(choose(15361), "rest");
  loadWithL2(50 * mebi);
  EXPECT_EQ(choose(12800), "fits");
  EXPECT_EQ(choose(12801), "rest");
}

TEST_F(DeviceAttributesTest, OnBothVendors) {
  for (const Vendor *vendor : {&cuda, &hip}) {
    loadOn(50 * mebi, 2619000, 5120, makeProgram("memory_bandwidth"), *vendor);
    EXPECT_EQ(describe()["launches"][0]["args"][1], 3352320000000);
    loadOn(4 * mebi, 1, 8, makeProgram("multiprocessors"), *vendor);
    EXPECT_EQ(describe()["launches"][0]["args"][1], 3);
  }
}

TEST_F(DeviceAttributesTest, AreDescribedWhereAProgramAsks) {
  loadOn(50 * mebi, 2619000, 5120, makeProgram("memory_bandwidth"));
  json expected = {{"l2_bytes", 50 * mebi},
                   {"memory_bandwidth", 3352320000000}};
  EXPECT_EQ(describe()["device_attributes"], expected);
  LoadedArtifact none(folder.path(), "none");
  ResolvedCall call(none.program(), {{{1, 1024}, {1024, 1}}});
  expected = {{"l2_bytes", 1}, {"memory_bandwidth", 1}};
  EXPECT_EQ(call.describe()["device_attributes"], expected);
  json program = makeProgram("l2_bytes");
  program["values"] = json::array();
  for (json &launch : program["launches"]) {
    launch.erase("when");
    launch["args"][1] = 5;
  }
  loadOn(refused, refused, refused, program);
  EXPECT_FALSE(describe().contains("device_attributes"));
}

TEST_F(DeviceAttributesTest, ComparisonsDoNotOverflow) {
  loadWithL2(INT_MAX);
  EXPECT_EQ(choose(524287), "fits");
  EXPECT_EQ(choose(int64_t(1) << 51), "rest");
}

TEST_F(DeviceAttributesTest, WhatTheDriverRefuses) {
  loadWithL2(refused);
  EXPECT_EQ(choose(1),
            "cuda:1: cuDeviceGetAttribute of the bytes of the L2 cache: "
            "MOCK_ERROR (mock error); programs know it as 'l2_bytes': update "
            "the driver, or compile with tiles that do not depend on it");
  loadWithL2(0);
  expectContains(choose(1), "cache: found 0, expected at least 1; programs");
  // An attribute that no program uses may be refused.
  loadOn(50 * mebi, refused, refused, makeProgram("l2_bytes"));
  EXPECT_EQ(choose(1), "fits");
  loadOn(50 * mebi, refused, 5120, makeProgram("memory_bandwidth"));
  expectContains(choose(1), "of the kHz of the memory: MOCK_ERROR");
  loadOn(4 * mebi, 1000, refused, makeProgram("memory_bandwidth"), hip);
  expectContains(choose(1), "hip:1: hipDeviceGetAttribute of the bits of the "
                            "memory's bus: MOCK_ERROR");
  loadOn(50 * mebi, INT_MAX, INT_MAX, makeProgram("memory_bandwidth"));
  expectContains(choose(1), "'memory_bandwidth' overflows 64 bits: the driver "
                            "says 2147483647 kHz and 2147483647 bits");
}

TEST_F(DeviceAttributesTest, AreAskedForOnce) {
  loadWithL2(50 * mebi);
  EXPECT_EQ(choose(12800), "fits");
  driver->setCard(refused, refused, refused);
  EXPECT_EQ(choose(12800), "fits");
}

} // namespace
