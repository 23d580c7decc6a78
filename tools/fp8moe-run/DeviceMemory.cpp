//===- DeviceMemory.cpp - Memory where a program runs ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

using namespace fp8moe::run;
using llvm::StringRef;
using llvm::Twine;

static constexpr uint64_t kAlignment = 256;
static constexpr uint8_t kPoison = 0xA5;

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

//===----------------------------------------------------------------------===//
// Host
//===----------------------------------------------------------------------===//

namespace {
class HostMemory : public DeviceMemory {
public:
  ~HostMemory() override { llvm::for_each(blocks, std::free); }

  llvm::Expected<void *> allocate(uint64_t bytes) override {
    if (bytes == 0)
      return nullptr;
    uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void *block =
        rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
    if (!block)
      return makeError("the host has no " + Twine(bytes) + " bytes of memory");
    std::memset(block, kPoison, rounded);
    blocks.push_back(block);
    return block;
  }

  llvm::Error copyToDevice(void *device, const void *host,
                           uint64_t bytes) override {
    if (bytes)
      std::memcpy(device, host, bytes);
    return llvm::Error::success();
  }

  llvm::Error copyToHost(void *host, const void *device,
                         uint64_t bytes) override {
    return copyToDevice(host, device, bytes);
  }

  llvm::Error synchronize() override { return llvm::Error::success(); }

private:
  std::vector<void *> blocks;
};

//===----------------------------------------------------------------------===//
// CUDA and HIP
//===----------------------------------------------------------------------===//

/// The few driver functions that are needed, by their names in each library.
struct DriverNames {
  const char *environment;
  std::vector<const char *> libraries;
  const char *init, *allocate, *free, *fill, *toDevice, *toHost, *synchronize;
};

/// Device pointers are integers in CUDA and `void *` in HIP: the same in the
/// calling convention of every 64-bit host.
class GpuMemory : public DeviceMemory {
public:
  ~GpuMemory() override {
    for (void *block : blocks)
      freeFn(block);
  }

  llvm::Error open(const DriverNames &names, int ordinal, bool isCuda);

  llvm::Expected<void *> allocate(uint64_t bytes) override {
    if (bytes == 0)
      return nullptr;
    void *block = nullptr;
    if (llvm::Error error = check(allocateFn(&block, bytes),
                                  "allocating " + Twine(bytes) + " bytes"))
      return error;
    blocks.push_back(block);
    if (llvm::Error error = check(fillFn(block, kPoison, bytes), "filling"))
      return error;
    return block;
  }

  llvm::Error copyToDevice(void *device, const void *host,
                           uint64_t bytes) override {
    return bytes ? check(toDeviceFn(device, host, bytes), "copying an input")
                 : llvm::Error::success();
  }

  llvm::Error copyToHost(void *host, const void *device,
                         uint64_t bytes) override {
    return bytes ? check(toHostFn(host, device, bytes), "copying an output")
                 : llvm::Error::success();
  }

  llvm::Error synchronize() override {
    return check(synchronizeFn(), "running the program");
  }

private:
  template <typename Fn> llvm::Error find(const char *name, Fn &function) {
    function = reinterpret_cast<Fn>(dlsym(library, name));
    return function ? llvm::Error::success()
                    : makeError(Twine("the driver library has no ") + name);
  }

  llvm::Error openContext(int ordinal);

  llvm::Error check(int code, const Twine &action) {
    return code == 0
               ? llvm::Error::success()
               : makeError("driver error " + Twine(code) + " while " + action);
  }

  void *library = nullptr;
  int (*allocateFn)(void **, size_t) = nullptr;
  int (*freeFn)(void *) = nullptr;
  int (*fillFn)(void *, unsigned char, size_t) = nullptr;
  int (*toDeviceFn)(void *, const void *, size_t) = nullptr;
  int (*toHostFn)(void *, const void *, size_t) = nullptr;
  int (*synchronizeFn)() = nullptr;
  std::vector<void *> blocks;
};
} // namespace

/// Makes the primary context of a CUDA device current, which is the one that
/// the runtime uses.
llvm::Error GpuMemory::openContext(int ordinal) {
  int (*getDevice)(int *, int) = nullptr;
  int (*retain)(void **, int) = nullptr;
  int (*setCurrent)(void *) = nullptr;
  if (auto error = llvm::joinErrors(
          llvm::joinErrors(find("cuDeviceGet", getDevice),
                           find("cuDevicePrimaryCtxRetain", retain)),
          find("cuCtxSetCurrent", setCurrent)))
    return error;
  int device = 0;
  void *context = nullptr;
  if (auto error = check(getDevice(&device, ordinal), "opening the device"))
    return error;
  if (auto error = check(retain(&context, device), "opening the context"))
    return error;
  return check(setCurrent(context), "setting the context");
}

llvm::Error GpuMemory::open(const DriverNames &names, int ordinal,
                            bool isCuda) {
  std::vector<const char *> libraries = names.libraries;
  if (const char *named = std::getenv(names.environment))
    libraries = {named};
  for (const char *name : libraries)
    if (!library)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return makeError(Twine("cannot open ") + libraries.front() +
                     ": is the GPU's driver installed?");

  int (*init)(unsigned) = nullptr;
  if (auto error = find(names.init, init))
    return error;
  if (auto error = check(init(0), "starting the driver"))
    return error;
  if (isCuda) {
    if (auto error = openContext(ordinal))
      return error;
  } else {
    int (*setDevice)(int) = nullptr;
    if (auto error = find("hipSetDevice", setDevice))
      return error;
    if (auto error = check(setDevice(ordinal), "opening the device"))
      return error;
  }

  llvm::Error error = find(names.allocate, allocateFn);
  error = llvm::joinErrors(std::move(error), find(names.free, freeFn));
  error = llvm::joinErrors(std::move(error), find(names.fill, fillFn));
  error = llvm::joinErrors(std::move(error), find(names.toDevice, toDeviceFn));
  error = llvm::joinErrors(std::move(error), find(names.toHost, toHostFn));
  return llvm::joinErrors(std::move(error),
                          find(names.synchronize, synchronizeFn));
}

llvm::Expected<std::unique_ptr<DeviceMemory>>
DeviceMemory::create(const std::string &device) {
  auto [kind, number] = StringRef(device).split(':');
  int ordinal = 0;
  bool known = llvm::StringSwitch<bool>(kind)
                   .Case("cpu", number.empty())
                   .Cases({"cuda", "hip"}, true)
                   .Default(false);
  if (!known || (!number.empty() && number.getAsInteger(10, ordinal)))
    return makeError("unknown device '" + device +
                     "'; devices are cpu, cuda:N and hip:N");
  if (kind == "cpu")
    return std::make_unique<HostMemory>();

  static const DriverNames kCuda = {
      "FP8MOE_CUDA_DRIVER", {"libcuda.so.1"},  "cuInit",
      "cuMemAlloc_v2",      "cuMemFree_v2",    "cuMemsetD8_v2",
      "cuMemcpyHtoD_v2",    "cuMemcpyDtoH_v2", "cuCtxSynchronize"};
  static const DriverNames kHip = {
      "FP8MOE_HIP_RUNTIME",
      {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"},
      "hipInit",
      "hipMalloc",
      "hipFree",
      "hipMemsetD8",
      "hipMemcpyHtoD",
      "hipMemcpyDtoH",
      "hipDeviceSynchronize"};
  bool isCuda = kind == "cuda";
  auto memory = std::make_unique<GpuMemory>();
  if (auto error = memory->open(isCuda ? kCuda : kHip, ordinal, isCuda))
    return error;
  return memory;
}
