//===- GpuBackend.h - What CUDA and HIP have in common ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver interfaces of both vendors have the same shape, so there is one
// implementation on a table of functions; a vendor is the names in the table.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_GPUBACKEND_H
#define FP8MOE_LIB_RUNTIME_GPUBACKEND_H

#include "Backend.h"

namespace fp8moe::runtime {

/// The differences between the vendors' drivers.
struct GpuVendor {
  /// The prefix of device names and of messages: "cuda", "hip".
  const char *device;
  /// Which name a function of the driver has (DriverFunctions.def).
  bool isCuda;
  /// The environment variable that names another library.
  const char *libraryVariable;
  /// The file's name without a version: one that the process has loaded is the
  /// driver.
  const char *loadedLibrary;
  /// Where else it is looked for, in this order; ends with null.
  std::array<const char *, 4> libraries;

  // Numbers of device attributes; the capability is for `whyUnfit`.
  int multiprocessorCount;
  int l2CacheSize;
  int memoryClockRate, memoryBusWidth;
  int computeCapabilityMajor, computeCapabilityMinor;

  /// Says why a device of that compute capability cannot run the binary, or
  /// nothing when it can. Null where the driver itself checks a binary's chip.
  std::string (*whyUnfit)(const std::string &chip, BinaryFormat format,
                          int major, int minor);
};

extern const GpuVendor cudaVendor, hipVendor;

std::unique_ptr<Backend>
createGpuBackend(const GpuVendor &vendor, const Target &target,
                 const std::vector<LoadedBinary> &binaries, int device);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_GPUBACKEND_H
