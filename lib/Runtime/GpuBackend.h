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
  /// The environment variable that names another library.
  const char *libraryVariable;
  /// The file's name without a version: one that the process has loaded is the
  /// driver.
  const char *loadedLibrary;
  /// Where else it is looked for, in this order; ends with null.
  std::array<const char *, 4> libraries;

  // The driver's functions.
  const char *init;
  const char *getErrorName;
  const char *getErrorString;
  const char *deviceGetCount;
  const char *deviceGet;
  const char *primaryContextRetain;
  const char *primaryContextRelease;
  const char *contextGetCurrent;
  const char *contextSetCurrent;
  const char *moduleLoadData;
  const char *moduleUnload;
  const char *moduleGetFunction;
  const char *launchKernel;
  const char *occupancy;
  /// Null where launches have no attributes.
  const char *launchKernelWithAttributes;
  const char *occupancyOfClusters;
  /// Null where that is an attribute.
  const char *launchCooperatively;
  /// Null where graphs capture cooperative launches.
  const char *streamIsCapturing;
  /// Null where there are no tensor maps.
  const char *encodeTensorMap;
  /// Null where dynamic shared memory needs no permission.
  const char *functionSetAttribute;
  const char *deviceGetAttribute;

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

std::unique_ptr<Backend>
createGpuBackend(const GpuVendor &vendor, const Target &target,
                 const std::vector<LoadedBinary> &binaries, int device);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_GPUBACKEND_H
