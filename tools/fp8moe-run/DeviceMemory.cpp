//===- DeviceMemory.cpp - Memory where a program runs ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

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

llvm::Error DeviceMemory::check(int code, const Twine &action) const {
  if (code == 0)
    return llvm::Error::success();
  return llvm::createStringError(device + ": error " + Twine(code) + " while " +
                                 action);
}

llvm::Expected<void *> DeviceMemory::allocate(uint64_t bytes) {
  if (bytes == 0)
    return nullptr;
  void *block = nullptr;
  if (auto error = check(functions.allocate(&block, bytes),
                         "allocating " + Twine(bytes) + " bytes"))
    return error;
  blocks.push_back(block);
  if (auto error = check(functions.fill(block, kPoison, bytes), "filling"))
    return error;
  return block;
}

llvm::Error DeviceMemory::copyToDevice(void *to, const void *from,
                                       uint64_t bytes) {
  return check(bytes ? functions.copyToDevice(to, from, bytes) : 0,
               "copying an input");
}

llvm::Error DeviceMemory::copyToHost(void *to, const void *from,
                                     uint64_t bytes) {
  return check(bytes ? functions.copyToHost(to, from, bytes) : 0,
               "copying an output");
}

llvm::Error DeviceMemory::synchronize() {
  return check(functions.synchronize(), "running the program");
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
llvm::Expected<DeviceMemory::Functions> DeviceMemory::openDriver(bool isCuda,
                                                                 int ordinal) {
  const char *library =
      std::getenv(isCuda ? "FP8MOE_CUDA_DRIVER" : "FP8MOE_HIP_RUNTIME");
  void *driver = nullptr;
  for (const char *name : {library, isCuda ? "libcuda.so.1" : "libamdhip64.so",
                           "libamdhip64.so.7", "libamdhip64.so.6"})
    if (!driver && name)
      driver = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *missing = driver ? nullptr : "driver";
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
    return llvm::createStringError(Twine("the GPU's driver has no ") + missing);
  int device = 0;
  void *context = nullptr;
  int code = getDevice(&device, ordinal);
  if (!code)
    code = retainContext(&context, device);
  if (!code)
    code = setContext(context);
  if (code)
    return llvm::createStringError("driver error " + Twine(code) +
                                   " while entering the device's context");
  return functions;
}

llvm::Expected<std::unique_ptr<DeviceMemory>>
DeviceMemory::create(const std::string &device) {
  auto [kind, number] = llvm::StringRef(device).split(':');
  int ordinal = 0;
  number.getAsInteger(10, ordinal);
  llvm::Expected<Functions> functions =
      kind == "cpu" ? getHostFunctions() : openDriver(kind == "cuda", ordinal);
  if (!functions)
    return functions.takeError();
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, *functions));
}
