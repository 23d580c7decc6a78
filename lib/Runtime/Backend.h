//===- Backend.h - Interface of devices -------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_BACKEND_H
#define FP8MOE_LIB_RUNTIME_BACKEND_H

#include "Sizes.h"

#include <memory>

namespace fp8moe::runtime {

/// A launch with all sizes known, except its parameters.
struct ReadyLaunch : LaunchShape {
  void *kernel = nullptr;
  /// The number of parameters.
  size_t numArgs = 0;
  std::array<uint32_t, 3> grid = {1, 1, 1};
};

/// A tensor to encode a tensor map of. Dimensions are ordered from innermost to
/// outermost.
struct TensorMapRequest {
  support::DataType dtype = {};
  void *address = nullptr;
  uint32_t rank = 0;
  std::array<uint64_t, 5> sizes = {};
  /// Strides in bytes of all dimensions but the innermost.
  std::array<uint64_t, 4> strides = {};
  std::array<uint32_t, 5> box = {};
  /// In bytes.
  uint32_t swizzle = 0, promotion = 0;
};

/// An encoded tensor map (CUtensorMap).
struct alignas(64) EncodedTensorMap {
  std::array<uint64_t, 16> words;
};

/// A device with an artifact's kernels loaded on it. Thread-safe.
class Backend : public DeviceAttributes {
public:
  /// Looks up a kernel and prepares it for `shared` bytes of dynamic shared
  /// memory. Called once per kernel, when the artifact is loaded.
  virtual void *getKernel(const std::string &name, uint32_t shared) = 0;

  /// Returns how many blocks of a cooperative launch can be resident at once.
  virtual uint64_t countResidentBlocks(const ReadyLaunch &) const { return 1; }

  /// Encodes a tensor map. Returns why the device does not support it; empty on
  /// success.
  virtual std::string encodeTensorMap(const TensorMapRequest &,
                                      EncodedTensorMap &) const {
    return "the device has no tensor maps";
  }

  /// Runs `launches` in order. `params` holds the addresses of all parameters
  /// of the first launch, then of the second, and so on. Does not allocate and
  /// does not wait.
  virtual void launch(const std::vector<ReadyLaunch> &launches, void **params,
                      void *stream) const = 0;

  /// Returns the name of the file that the kernels come from.
  const std::string &binaryFile() const { return file; }

protected:
  std::string file;
};

/// A binary of the artifact with a verified checksum.
struct LoadedBinary : Binary {
  /// The file's bytes.
  std::string image;
};

std::unique_ptr<Backend>
createCpuBackend(const std::vector<LoadedBinary> &binaries);
} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_BACKEND_H
