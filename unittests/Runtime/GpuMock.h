//===- GpuMock.h - Artifacts on a driver that records its calls -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_RUNTIME_GPUMOCK_H
#define FP8MOE_UNITTESTS_RUNTIME_GPUMOCK_H

#include "TestArtifact.h"

#include <cstdlib>
#include <dlfcn.h>
#include <memory>

namespace fp8moe::runtime::test {

/// A vendor's mock driver.
struct Vendor {
  const char *device, *variable, *library;
};
inline const Vendor cuda = {"cuda:1", "FP8MOE_CUDA_DRIVER", FP8MOE_MOCK_CUDA};
inline const Vendor hip = {"hip:1", "FP8MOE_HIP_RUNTIME", FP8MOE_MOCK_HIP};

class MockDriver {
public:
  explicit MockDriver(const Vendor &vendor) {
    ::setenv(vendor.variable, vendor.library, /*overwrite=*/1);
    handle = ::dlopen(vendor.library, RTLD_NOW);
    reset(9, 0);
    setCard(62914560, 3201000, 6144);
    setCapturing(false);
  }
  ~MockDriver() { ::dlclose(handle); }

  void reset(int major, int minor, int launchResult = 0) {
    get<void(int, int, int)>("mock_reset")(major, minor, launchResult);
  }
  /// Sets the card's attributes, by default those of an H200. The driver
  /// refuses to report negative ones.
  void setCard(int l2Bytes, int memoryKilohertz, int busBits) {
    get<void(int, int, int)>("mock_set_card")(l2Bytes, memoryKilohertz,
                                              busBits);
  }
  void setCapturing(bool isCapturing) {
    get<void(int)>("mock_set_capturing")(isCapturing);
  }
  std::string log() { return get<const char *()>("mock_log")(); }
  void *currentContext() { return get<void *()>("mock_current_context")(); }

  template <typename F> F *get(const char *name) {
    return reinterpret_cast<F *>(::dlsym(handle, name));
  }

private:
  void *handle;
};

inline const json cubinAndPtx = {
    {{"file", "kernels.cubin"}, {"format", "cubin"}},
    {{"file", "kernels.ptx"}, {"format", "ptx"}}};
inline const json hsaco = {{{"file", "kernels.hsaco"}, {"format", "hsaco"}}};

/// Returns the manifest of an artifact with one program.
inline json makeManifest(const json &program, const char *kind = "nvvm",
                         const char *minRuntime = "0.1.0") {
  bool isCuda = std::string(kind) == "nvvm";
  return {
      {"schema", 1},
      {"min_runtime", minRuntime},
      {"producer", "test"},
      {"target",
       {{"chip", isCuda ? "sm_90a" : "gfx942"}, {"kind", kind}, {"fp8", "fn"}}},
      {"binaries", isCuda ? cubinAndPtx : hsaco},
      {"programs", {program}},
      {"decisions", json::array()}};
}

class GpuMockTest : public ::testing::Test {
protected:
  /// Loads an artifact whose files have these contents.
  void load(const Vendor &vendor, const json &manifest,
            const std::string &cubin = "CUBIN") {
    driver = std::make_unique<MockDriver>(vendor);
    folder.write("kernels.cubin", cubin);
    folder.write("kernels.ptx", "PTX");
    folder.write("kernels.hsaco", "HSACO");
    folder.writeManifest(manifest);
    reload(vendor);
  }
  void reload(const Vendor &vendor) {
    artifact.reset();
    artifact = std::make_unique<LoadedArtifact>(folder.path(), vendor.device);
  }

  TestArtifact folder;
  std::unique_ptr<MockDriver> driver;
  std::unique_ptr<LoadedArtifact> artifact;
};

} // namespace fp8moe::runtime::test

#endif // FP8MOE_UNITTESTS_RUNTIME_GPUMOCK_H
