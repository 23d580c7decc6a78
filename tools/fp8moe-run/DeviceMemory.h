//===- DeviceMemory.h - Memory where a program runs -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_DEVICEMEMORY_H
#define FP8MOE_TOOLS_RUN_DEVICEMEMORY_H

#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fp8moe::run {

/// Allocates and copies memory on one device. The destructor frees all
/// allocations.
class DeviceMemory {
public:
  /// Uses `device`: "cpu", "cuda:N" or "hip:N". An artifact must be loaded on
  /// it already, which initializes its driver.
  explicit DeviceMemory(const std::string &device);
  DeviceMemory(const DeviceMemory &) = delete;
  ~DeviceMemory();

  /// Allocates at least `bytes` bytes, aligned to 256; returns null for 0
  /// bytes. Fills them with 0xA5, so that missing writes of a kernel show.
  void *allocate(uint64_t bytes);
  void copyToDevice(void *to, const void *from, uint64_t bytes);
  void copyToHost(void *to, const void *from, uint64_t bytes);
  /// Waits until all work on the default stream has finished.
  void synchronize();

private:
  /// Functions of a driver or the host, which return 0 on success. Device
  /// pointers are integers in CUDA and `void *` in HIP: the same in the calling
  /// convention of every 64-bit host.
  struct Functions {
    int (*allocate)(void **, size_t);
    int (*free)(void *);
    int (*fill)(void *, unsigned char, size_t);
    int (*copyToDevice)(void *, const void *, size_t);
    int (*copyToHost)(void *, const void *, size_t);
    int (*synchronize)();
  };

  static Functions getHostFunctions();
  Functions openDriver(bool isCuda, int ordinal) const;
  void check(int code, const llvm::Twine &action) const;

  std::string device;
  Functions functions;
  std::vector<void *> blocks;
};

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_DEVICEMEMORY_H
