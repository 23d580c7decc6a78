//===- DeviceMemory.cpp - Memory where a program runs ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace fp8moe::run;
using llvm::Twine;

static constexpr size_t kAlignment = 256;
static constexpr uint8_t kPoison = 0xA5;

DeviceMemory::~DeviceMemory() {
  for (void *block : blocks)
    functions.free(block);
}

void DeviceMemory::check(int code, const Twine &action) const {
  if (code)
    fail(device + ": error " + Twine(code) + " while " + action);
}

void *DeviceMemory::allocate(uint64_t bytes) {
  if (bytes == 0)
    return nullptr;
  void *block = nullptr;
  if (int code = functions.allocate(&block, bytes))
    fail(device + " has no " + Twine(bytes) + " bytes of memory (error " +
         Twine(code) + ")");
  blocks.push_back(block);
  check(functions.fill(block, kPoison, bytes), "filling");
  return block;
}

void DeviceMemory::copyToDevice(void *to, const void *from, uint64_t bytes) {
  if (bytes)
    check(functions.copyToDevice(to, from, bytes), "copying an input");
}

void DeviceMemory::copyToHost(void *to, const void *from, uint64_t bytes) {
  if (bytes)
    check(functions.copyToHost(to, from, bytes), "copying an output");
}

void DeviceMemory::synchronize() {
  check(functions.synchronize(), "running the program");
}

DeviceMemory::Functions DeviceMemory::getHostFunctions() {
  auto copy = [](void *to, const void *from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return 0;
  };
  return {[](void **block, size_t bytes) {
            return ::posix_memalign(block, kAlignment, bytes);
          },
          [](void *block) {
            std::free(block);
            return 0;
          },
          [](void *block, unsigned char value, size_t bytes) {
            std::memset(block, value, bytes);
            return 0;
          },
          copy,
          copy,
          [] { return 0; }};
}

/// Makes the primary context of a device current, which is the one that the
/// runtime uses, and finds the functions.
DeviceMemory::Functions DeviceMemory::openDriver(bool isCuda,
                                                 int ordinal) const {
  const char *library =
      std::getenv(isCuda ? "FP8MOE_CUDA_DRIVER" : "FP8MOE_HIP_RUNTIME");
  void *driver = nullptr;
  llvm::SmallVector<const char *, 4> names{library};
  if (isCuda)
    names.push_back("libcuda.so.1");
  else
    names.append({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"});
  for (const char *name : names)
    if (!driver && name)
      driver = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    fail(device + ": the GPU's driver cannot be opened");
  const char *missing = nullptr;
  auto find = [&](const char *ofCuda, const char *ofHip, auto &function) {
    const char *name = isCuda ? ofCuda : ofHip;
    void *symbol = missing ? nullptr : ::dlsym(driver, name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    if (!symbol && !missing)
      missing = name;
  };
  int (*getDevice)(int *, int);
  int (*retainContext)(void **, int);
  int (*setContext)(void *);
  Functions functions;
  find("cuDeviceGet", "hipDeviceGet", getDevice);
  find("cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain", retainContext);
  find("cuCtxSetCurrent", "hipCtxSetCurrent", setContext);
  find("cuMemAlloc_v2", "hipMalloc", functions.allocate);
  find("cuMemFree_v2", "hipFree", functions.free);
  find("cuMemsetD8_v2", "hipMemsetD8", functions.fill);
  find("cuMemcpyHtoD_v2", "hipMemcpyHtoD", functions.copyToDevice);
  find("cuMemcpyDtoH_v2", "hipMemcpyDtoH", functions.copyToHost);
  find("cuCtxSynchronize", "hipDeviceSynchronize", functions.synchronize);
  if (missing)
    fail(Twine("the GPU's driver has no ") + missing);
  int number = 0;
  void *context = nullptr;
  check(getDevice(&number, ordinal), "opening the device");
  check(retainContext(&context, number), "opening the context");
  check(setContext(context), "setting the context");
  return functions;
}

DeviceMemory::DeviceMemory(const std::string &device) : device(device) {
  auto [kind, number] = llvm::StringRef(device).split(':');
  int ordinal = 0;
  number.getAsInteger(10, ordinal);
  functions =
      kind == "cpu" ? getHostFunctions() : openDriver(kind == "cuda", ordinal);
}
