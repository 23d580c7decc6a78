//===- GpuBackend.h - Common backend of CUDA and HIP ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One backend for both vendors, whose driver APIs have the same shape. It calls
// the driver through a table of functions, and a vendor provides the names for
// this table.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_GPUBACKEND_H
#define FP8MOE_LIB_RUNTIME_GPUBACKEND_H

#include "Backend.h"

namespace fp8moe::runtime {

/// A vendor's driver: names and constants.
struct GpuVendor {
  /// The prefix of device names and of messages: "cuda", "hip".
  const char *device;
  /// Whether to use the CUDA or the HIP name of each function in
  /// DriverFunctions.def.
  bool isCuda;
  /// The environment variable that selects another library file.
  const char *libraryVariable;
  /// The library's file name without a version. A loaded library of that name
  /// is used as the driver.
  const char *loadedLibrary;
  /// Other files to try, in order; terminated by null.
  std::array<const char *, 4> libraries;

  // Driver constants of device attributes. `whyUnfit` gets the compute
  // capability.
  int multiprocessorCount;
  int l2CacheSize;
  int memoryClockRate, memoryBusWidth;
  int computeCapabilityMajor, computeCapabilityMinor;

  /// Returns why a device of that compute capability cannot run the binary, or
  /// an empty string. Null if the driver itself checks this.
  std::string (*whyUnfit)(const std::string &chip, BinaryFormat format,
                          int major, int minor);
};

extern const GpuVendor cudaVendor, hipVendor;

std::unique_ptr<Backend>
createGpuBackend(const GpuVendor &vendor, const Target &target,
                 const std::vector<LoadedBinary> &binaries, int device);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_GPUBACKEND_H
