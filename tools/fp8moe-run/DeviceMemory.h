//===- DeviceMemory.h - Memory where a program runs -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_DEVICEMEMORY_H
#define FP8MOE_TOOLS_RUN_DEVICEMEMORY_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>

namespace fp8moe::run {

/// Allocation and copies on one device. Allocations are freed with the object.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;

  /// At least `bytes` bytes at a multiple of 256; null for no bytes. The
  /// contents are the byte 0xA5, so that what a kernel forgot to write is seen.
  virtual llvm::Expected<void *> allocate(uint64_t bytes) = 0;
  virtual llvm::Error copyToDevice(void *device, const void *host,
                                   uint64_t bytes) = 0;
  virtual llvm::Error copyToHost(void *host, const void *device,
                                 uint64_t bytes) = 0;
  /// Returns when everything launched on the default stream has finished.
  virtual llvm::Error synchronize() = 0;

  /// `device` is "cpu", "cuda:N" or "hip:N", as for fp8moe_artifact_load.
  static llvm::Expected<std::unique_ptr<DeviceMemory>>
  create(const std::string &device);
};

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_DEVICEMEMORY_H
