//===- GpuVendors.cpp - The CUDA driver and the HIP runtime ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBackend.h"

#include <charconv>
#include <utility>

using namespace fp8moe::runtime;

/// How PTX and cubins carry over between chips, from the CUDA programming
/// guide: a chip "sm_90a" runs on 9.0 only, "sm_100f" on later minor versions
/// of its family, a plain "sm_90" cubin on later minor versions, and plain PTX
/// on everything later.
static std::string whyUnfit(const std::string &chip, BinaryFormat format,
                            int major, int minor) {
  constexpr size_t prefix = 3; // of "sm_"
  int number = 0;
  const char *end = chip.data() + chip.size(), *rest = end;
  if (chip.rfind("sm_", 0) == 0)
    rest = std::from_chars(chip.data() + prefix, end, number).ptr;
  char suffix = rest == end ? '\0' : *rest;
  if (number < 10 || end - rest > 1 ||
      (suffix && suffix != 'a' && suffix != 'f'))
    return "'" + chip + "' is no CUDA chip";
  int wantMajor = number / 10, wantMinor = number % 10;
  bool fits = false;
  if (suffix == 'a')
    fits = major == wantMajor && minor == wantMinor;
  else if (suffix == 'f' || format == BinaryFormat::Cubin)
    fits = major == wantMajor && minor >= wantMinor;
  else
    fits = std::make_pair(major, minor) >= std::make_pair(wantMajor, wantMinor);
  if (fits)
    return "";
  return "the device has compute capability " + std::to_string(major) + "." +
         std::to_string(minor);
}

const GpuVendor fp8moe::runtime::cudaVendor = {
    /*device=*/"cuda",
    /*isCuda=*/true,
    /*libraryVariable=*/"FP8MOE_CUDA_DRIVER",
    /*loadedLibrary=*/"libcuda.so",
    /*libraries=*/{"libcuda.so.1", nullptr},
    /*multiprocessorCount=*/16,
    /*l2CacheSize=*/38,
    /*memoryClockRate=*/36,
    /*memoryBusWidth=*/37,
    /*computeCapabilityMajor=*/75,
    /*computeCapabilityMinor=*/76,
    /*whyUnfit=*/whyUnfit,
};

// A code object for another chip is refused by hipModuleLoadDataEx itself, and
// the local memory of a workgroup needs no permission.
const GpuVendor fp8moe::runtime::hipVendor = {
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
