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

/// Allocation and copies on one device. Allocations are freed with the object.
class DeviceMemory {
public:
  /// `device` is "cpu", "cuda:N" or "hip:N": one that an artifact has been
  /// loaded on, so that its driver is ready.
  explicit DeviceMemory(const std::string &device);
  DeviceMemory(const DeviceMemory &) = delete;
  ~DeviceMemory();

  /// At least `bytes` bytes at a multiple of 256; null for no bytes. The
  /// contents are the byte 0xA5, so that what a kernel forgot to write is seen.
  void *allocate(uint64_t bytes);
  void copyToDevice(void *to, const void *from, uint64_t bytes);
  void copyToHost(void *to, const void *from, uint64_t bytes);
  /// Returns when everything launched on the default stream has finished.
  void synchronize();

private:
  /// Functions of a driver, or of the host; 0 is success. Device pointers are
  /// integers in CUDA and `void *` in HIP: the same in the calling convention
  /// of every 64-bit host.
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
