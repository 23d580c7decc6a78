//===- Driver.cpp - A GPU driver as a program uses it ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "Sizes.h"

#include <cstdlib>
#include <dlfcn.h>

/// Calls CUDA's or HIP's function of the loaded driver. A name is null if that
/// driver has no such function.
template <typename... Args>
int Driver::call(const char *ofCuda, const char *ofHip, Args... args) const {
  const char *name = cuda ? ofCuda : ofHip;
  auto *function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  if (!function)
    throw Error(std::string("the driver has no ") + name);
  return function(args...);
}

template <typename... Args>
void Driver::check(const char *ofCuda, const char *ofHip, Args... args) const {
  if (int result = call(ofCuda, ofHip, args...))
    throw Error(std::string(cuda ? ofCuda : ofHip) + " returns " +
                std::to_string(result));
}

Driver::Driver(const std::string &kind) : cuda(kind == "nvvm") {
  const char *variable = cuda ? "FP8MOE_CUDA_DRIVER" : "FP8MOE_HIP_RUNTIME";
  const char *chosen = std::getenv(variable);
  const char *file = cuda ? "libcuda.so.1" : "libamdhip64.so";
  library = dlopen(chosen && *chosen ? chosen : file, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(dlerror());
  check("cuInit", "hipInit", 0u);
  check("cuDeviceGet", "hipDeviceGet", &device, 0);
  void *context = nullptr;
  check("cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain", &context,
        device);
  check("cuCtxSetCurrent", "hipCtxSetCurrent", context);
}

int Driver::readNumber(int ofCuda, int ofHip) const {
  int value = 0;
  check("cuDeviceGetAttribute", "hipDeviceGetAttribute", &value,
        cuda ? ofCuda : ofHip, device);
  return value;
}

int64_t Driver::getAttribute(const std::string &name) const {
  if (name == "multiprocessors")
    return readNumber(16, 63);
  if (name == "l2_bytes")
    return readNumber(38, 19);
  if (name == "memory_bandwidth") // kHz, bus bits, two transfers a clock
    return int64_t(readNumber(36, 60)) * readNumber(37, 59) * 2 * 1000 / 8;
  throw Error("the device attribute '" + name + "' is unknown here");
}

bool Driver::load(const std::string &image) {
  return call("cuModuleLoadDataEx", "hipModuleLoadDataEx", &module,
              static_cast<const void *>(image.c_str()), 0u,
              static_cast<int *>(nullptr), static_cast<void **>(nullptr)) == 0;
}

void *Driver::getKernel(const std::string &name, unsigned sharedBytes) const {
  void *kernel = nullptr;
  check("cuModuleGetFunction", "hipModuleGetFunction", &kernel, module,
        name.c_str());
  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: without it, a CUDA kernel
  // may use at most 48 KiB. HIP has no such limit.
  constexpr int maxDynamicShared = 8;
  if (cuda && sharedBytes != 0)
    check("cuFuncSetAttribute", nullptr, kernel, maxDynamicShared,
          int(sharedBytes));
  return kernel;
}

namespace {
/// Stands for CUlaunchAttribute.
struct Attribute {
  enum { Cooperative = 2, Cluster = 4, Programmatic = 6 };
  int kind;
  int padding;
  union {
    int isOn;
    unsigned cluster[3];
    char reserved[64];
  };
};

/// Stands for CUlaunchConfig.
struct Config {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned numAttributes;
};
} // namespace

void Driver::launch(void *kernel, const LaunchShape &shape,
                    void **params) const {
  void *stream = nullptr;
  void **extra = nullptr;
  const unsigned *grid = shape.grid, *block = shape.block,
                 *cluster = shape.cluster;
  bool hasCluster = cluster[0] * cluster[1] * cluster[2] != 1;
  if (!shape.cooperative && !shape.programmatic && !hasCluster) {
    check("cuLaunchKernel", "hipModuleLaunchKernel", kernel, grid[0], grid[1],
          grid[2], block[0], block[1], block[2], shape.shared, stream, params,
          extra);
    return;
  }
  if (!cuda) { // only NVIDIA has clusters and programmatic launches
    check(nullptr, "hipModuleLaunchCooperativeKernel", kernel, grid[0], grid[1],
          grid[2], block[0], block[1], block[2], shape.shared, stream, params);
    return;
  }
  Attribute attributes[3] = {};
  Config config = {{grid[0], grid[1], grid[2]},
                   {block[0], block[1], block[2]},
                   shape.shared,
                   stream,
                   attributes,
                   0};
  auto add = [&](int kind) -> Attribute & {
    Attribute &attribute = attributes[config.numAttributes++];
    attribute.kind = kind;
    attribute.isOn = 1;
    return attribute;
  };
  if (shape.cooperative)
    add(Attribute::Cooperative);
  if (hasCluster)
    std::copy(cluster, cluster + 3, add(Attribute::Cluster).cluster);
  if (shape.programmatic)
    add(Attribute::Programmatic);
  check("cuLaunchKernelEx", nullptr, static_cast<const Config *>(&config),
        kernel, params, extra);
}

TensorMap Driver::encode(const TensorMapShape &shape) const {
  TensorMap map;
  const unsigned elementStrides[5] = {1, 1, 1, 1, 1};
  constexpr int interleave = 0, fill = 0; // no interleaving; zeros outside
  check("cuTensorMapEncodeTiled", nullptr, &map, shape.type, shape.rank,
        static_cast<void *>(shape.address), shape.sizes, shape.strides,
        shape.box, static_cast<const unsigned *>(elementStrides), interleave,
        shape.swizzle, shape.promotion, fill);
  return map;
}

void Driver::wait() const { check("cuCtxSynchronize", "hipDeviceSynchronize"); }

char *Driver::allocate(uint64_t bytes) const {
  void *address = nullptr;
  if (bytes != 0)
    check("cuMemAlloc_v2", "hipMalloc", &address, size_t(bytes));
  return static_cast<char *>(address);
}

void Driver::upload(char *to, const std::string &from) const {
  if (!from.empty())
    check("cuMemcpyHtoD_v2", "hipMemcpyHtoD", static_cast<void *>(to),
          static_cast<const void *>(from.data()), from.size());
}

std::string Driver::download(const char *from, uint64_t bytes) const {
  std::string to(bytes, '\0');
  if (bytes != 0)
    check("cuMemcpyDtoH_v2", "hipMemcpyDtoH", static_cast<void *>(&to[0]),
          static_cast<const void *>(from), size_t(bytes));
  return to;
}
