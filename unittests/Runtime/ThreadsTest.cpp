//===- ThreadsTest.cpp - Many threads on the runtime at once --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads load, resolve, describe, run and unload concurrently, on their own
// artifacts and on a shared one. ThreadSanitizer finds data races
// (scripts/test.sh tsan). Without it, the tests check results and messages.
//
//===----------------------------------------------------------------------===//

#include "GpuMock.h"

#include <atomic>
#include <sstream>
#include <thread>

using namespace fp8moe::runtime::test;

namespace {

constexpr int numThreads = 6;
constexpr int numRounds = 8;

/// Runs `body(thread)` in all threads, which start together.
template <typename Body> void inThreads(Body body) {
  std::atomic<int> waiting = numThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < numThreads; ++t)
    threads.emplace_back([&, t] {
      for (--waiting; waiting > 0;)
        std::this_thread::yield();
      body(t);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Checks that a failure's message has this thread's `index`.
void checkMessage(const fp8moe_program *program, size_t index) {
  EXPECT_EQ(fp8moe_program_input(program, index), nullptr);
  expectContains(fp8moe_last_error(), "input " + std::to_string(index));
  EXPECT_EQ(fp8moe_last_status(), FP8MOE_INVALID_ARGUMENT);
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

class CpuThreadsTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  }

  TestArtifact folder;
};

/// Runs a call of "twice" with `m` rows in its own memory.
void runTwice(const fp8moe_call *call, int64_t m, float first) {
  std::vector<float> in(m * 3), out(m * 3);
  for (int64_t i = 0; i < m * 3; ++i)
    in[i] = first + float(i);
  // The program only requires the alignment of its elements.
  const void *inputs[] = {in.data()};
  void *outputs[] = {out.data()};
  ASSERT_EQ(fp8moe_call_run(call, inputs, outputs, nullptr, 0, nullptr),
            FP8MOE_OK)
      << fp8moe_last_error();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < 3; ++j)
      ASSERT_EQ(out[i + j * m], 2 * in[i * 3 + j]) << i << ", " << j;
}

void resolveAndRunTwice(const fp8moe_program *program, int64_t m) {
  ResolvedCall call(program, {{{m, 3}, {}}});
  ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
  EXPECT_EQ(call.describe()["buffers"][0]["shape"], json::array({m, 3}));
  runTwice(call.get(), m, float(m));
}

TEST_F(CpuThreadsTest, EachItsOwnArtifact) {
  inThreads([&](int t) {
    for (int round = 0; round < numRounds; ++round) {
      LoadedArtifact artifact(folder.path());
      ASSERT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
      checkMessage(artifact.program(), 100 + t);
      resolveAndRunTwice(artifact.program(), 1 + 10 * t + round);
    }
  });
}

TEST_F(CpuThreadsTest, OneArtifactAndOneCall) {
  LoadedArtifact artifact(folder.path());
  ASSERT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
  constexpr int64_t sharedRows = 50;
  ResolvedCall shared(artifact.program(), {{{sharedRows, 3}, {}}});
  ASSERT_EQ(shared.status, FP8MOE_OK) << shared.error;
  std::string described = shared.describe().dump();
  inThreads([&](int t) {
    for (int round = 0; round < numRounds; ++round) {
      EXPECT_EQ(fp8moe_artifact_find_program(artifact.get(), "twice"),
                artifact.program());
      EXPECT_EQ(fp8moe_program_output(artifact.program(), 0)->rank, 2);
      resolveAndRunTwice(artifact.program(), 1 + t);
      runTwice(shared.get(), sharedRows, float(t));
      EXPECT_EQ(shared.describe().dump(), described);
      checkMessage(artifact.program(), 100 + t);
    }
  });
}

TEST_F(CpuThreadsTest, CallsOutliveTheirArtifact) {
  // One thread unloads the artifact while other threads' calls run. The last
  // call frees the kernels.
  for (int round = 0; round < numRounds; ++round) {
    auto artifact = std::make_unique<LoadedArtifact>(folder.path());
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
    std::vector<std::unique_ptr<ResolvedCall>> calls;
    for (int t = 0; t < numThreads; ++t)
      calls.push_back(std::make_unique<ResolvedCall>(
          artifact->program(),
          std::vector<ResolvedCall::Input>{{{1 + t, 3}, {}}}));
    inThreads([&](int t) {
      if (t == 0)
        artifact.reset();
      runTwice(calls[t]->get(), 1 + t, 7);
      calls[t].reset();
    });
  }
}

TEST_F(CpuThreadsTest, DamagedAndWholeArtifacts) {
  TestArtifact damaged;
  damaged.writeCpuKernels();
  damaged.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  damaged.write("kernels.so", "not the kernels");
  inThreads([&](int t) {
    for (int round = 0; round < numRounds; ++round) {
      LoadedArtifact artifact(t % 2 ? folder.path() : damaged.path());
      if (t % 2) {
        EXPECT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
      } else {
        EXPECT_EQ(artifact.status, FP8MOE_INVALID_ARTIFACT);
        expectContains(artifact.error, "does not have the checksum");
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

/// Returns program "copy" with x [M] and two launches. The second launch needs
/// much shared memory. On CUDA it has a tensor map of x [M, 64], whose
/// alignment conditions depend on the address of each run.
json makeGpuManifest(bool isCuda) {
  json program = json::parse(R"({
    "name": "copy",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "BF16",
       "shape": [{"dim": [0, 0]}, 64], "strides": [64, 1], "align": 16}],
    "values": [{"op": "dim", "args": [0, 0]},
               {"op": "aligned", "args": [0, 64]},
               {"op": "select", "args": [{"value": 1}, {"value": 0}, -1]}],
    "launches": [
      {"kernel": "plain", "grid": [{"value": 0}, 2, 1], "block": [256, 1, 1],
       "shared": 1024, "args": [{"buffer": 0}, {"value": 2}]},
      {"kernel": "wide", "grid": [1, 1, 1], "block": [32, 1, 1],
       "shared": 65536, "cooperative": true,
       "args": [{"buffer": 0}, {"value": 0}]}]
  })");
  if (isCuda) {
    program["tensor_maps"] = json::parse(R"([
      {"buffer": 0, "offset": 0, "sizes": [64, {"value": 0}], "strides": [64],
       "box": [64, 16], "swizzle": 128, "promotion": 256}])");
    json &launch = program["launches"][1];
    launch["kernel"] = "tma";
    launch["args"].insert(launch["args"].begin(),
                          json::object({{"tensor_map", 0}}));
  }
  return {{"schema", 1},
          {"min_runtime", "0.1.0"},
          {"producer", "test"},
          {"target",
           {{"chip", isCuda ? "sm_90a" : "gfx942"},
            {"kind", isCuda ? "nvvm" : "rocdl"},
            {"fp8", "fn"}}},
          {"binaries", isCuda ? cubinAndPtx : hsaco},
          {"programs", {program}},
          {"decisions", json::array()}};
}

class GpuThreadsTest : public GpuMockTest,
                       public ::testing::WithParamInterface<const Vendor *> {
protected:
  const Vendor &vendor() const { return *GetParam(); }
  bool isCuda() const { return GetParam() == &cuda; }

  void SetUp() override {
    load(vendor(), makeGpuManifest(isCuda()));
    ASSERT_EQ(artifact->status, FP8MOE_OK) << artifact->error;
  }

  /// Runs a call with `m` rows at an address that identifies the thread.
  void run(const fp8moe_call *call, int t) {
    const void *inputs[] = {getAddress(t)};
    ASSERT_EQ(fp8moe_call_run(call, inputs, nullptr, nullptr, 0, nullptr),
              FP8MOE_OK)
        << fp8moe_last_error();
    EXPECT_EQ(driver->currentContext(), nullptr);
  }

  void resolveAndRun(const fp8moe_program *program, int t) {
    ResolvedCall call(program, {{{2 + t, 64}, {}}});
    ASSERT_EQ(call.status, FP8MOE_OK) << call.error;
    run(call.get(), t);
  }

  /// Odd threads have a less aligned address.
  static void *getAddress(int t) {
    return reinterpret_cast<void *>(uintptr_t(t + 1) * 0x10000 + t % 2 * 16);
  }

  /// Returns the number of log lines that begin with `prefix` and contain
  /// `part`.
  size_t count(const std::string &prefix, const std::string &part = "") {
    size_t number = 0;
    std::istringstream log(driver->log());
    for (std::string line; std::getline(log, line);)
      number +=
          line.rfind(prefix, 0) == 0 && line.find(part) != std::string::npos;
    return number;
  }

  /// Checks that each thread launched `times` times, with its own address and
  /// values.
  void expectLaunches(size_t times, const std::vector<int> &rows) {
    for (int t = 0; t < numThreads; ++t) {
      std::ostringstream plain, wide;
      plain << "args " << getAddress(t) << " " << (t % 2 ? -1 : rows[t]);
      wide << "args " << getAddress(t) << " " << rows[t];
      EXPECT_EQ(count("launch plain", plain.str()), times) << plain.str();
      EXPECT_EQ(count("cooperative", wide.str()), times) << wide.str();
      if (!isCuda())
        continue;
      std::ostringstream map;
      map << "map type 9 at " << getAddress(t) << " 64/64 " << rows[t]
          << "/16*128";
      EXPECT_EQ(count("cooperative", map.str()), times) << map.str();
    }
  }
};

TEST_P(GpuThreadsTest, EachItsOwnArtifact) {
  artifact.reset();
  driver->reset(9, 0);
  inThreads([&](int t) {
    for (int round = 0; round < numRounds; ++round) {
      LoadedArtifact own(folder.path(), vendor().device);
      ASSERT_EQ(own.status, FP8MOE_OK) << own.error;
      resolveAndRun(own.program(), t);
    }
  });
  constexpr size_t total = numThreads * numRounds;
  for (const char *event : {"retain", "release", "load", "unload"})
    EXPECT_EQ(count(event), total) << event;
  expectLaunches(numRounds, {2, 3, 4, 5, 6, 7});
}

TEST_P(GpuThreadsTest, OneArtifactAndOneCall) {
  driver->reset(9, 0);
  ResolvedCall shared(artifact->program(), {{{9, 64}, {}}});
  ASSERT_EQ(shared.status, FP8MOE_OK) << shared.error;
  inThreads([&](int t) {
    for (int round = 0; round < numRounds; ++round) {
      run(shared.get(), t);
      ResolvedCall own(artifact->program(), {{{2 + t, 64}, {}}});
      ASSERT_EQ(own.status, FP8MOE_OK) << own.error;
      EXPECT_EQ(own.describe()["launches"][0]["grid"][0], 2 + t);
      checkMessage(artifact->program(), 100 + t);
    }
  });
  expectLaunches(numRounds, std::vector<int>(numThreads, 9));
}

TEST_P(GpuThreadsTest, TheLastCallUnloads) {
  for (int round = 0; round < numRounds; ++round) {
    reload(vendor());
    driver->reset(9, 0);
    std::vector<std::unique_ptr<ResolvedCall>> calls;
    for (int t = 0; t < numThreads; ++t)
      calls.push_back(std::make_unique<ResolvedCall>(
          artifact->program(),
          std::vector<ResolvedCall::Input>{{{2 + t, 64}, {}}}));
    inThreads([&](int t) {
      if (t == 0)
        artifact.reset();
      run(calls[t]->get(), t);
      calls[t].reset();
      EXPECT_EQ(driver->currentContext(), nullptr);
    });
    expectLaunches(1, {2, 3, 4, 5, 6, 7});
    EXPECT_EQ(count("unload"), 1u);
    EXPECT_EQ(count("release"), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Vendors, GpuThreadsTest,
                         ::testing::Values(&cuda, &hip), [](const auto &info) {
                           return info.param == &cuda ? "cuda" : "hip";
                         });

} // namespace
