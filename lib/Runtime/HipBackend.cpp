//===- HipBackend.cpp - The HIP runtime -----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBackend.h"

using namespace fp8moe::runtime;

// A code object for another chip is refused by hipModuleLoadDataEx itself, and
// the local memory of a workgroup needs no permission.
static constexpr GpuVendor hip = {
    /*device=*/"hip",
    /*isCuda=*/false,
    /*libraryVariable=*/"FP8MOE_HIP_RUNTIME",
    /*loadedLibrary=*/"libamdhip64.so",
    /*libraries=*/
    {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", nullptr},
    /*multiprocessorCount=*/63,
    /*l2CacheSize=*/19,
    /*memoryClockRate=*/60,
    /*memoryBusWidth=*/59,
    /*computeCapabilityMajor=*/0,
    /*computeCapabilityMinor=*/0,
    /*whyUnfit=*/nullptr,
};

std::unique_ptr<Backend>
fp8moe::runtime::createHipBackend(const Target &target,
                                  const std::vector<LoadedBinary> &binaries,
                                  int device) {
  return createGpuBackend(hip, target, binaries, device);
}
