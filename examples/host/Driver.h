//===- Driver.h - A GPU driver as a program uses it -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Wraps the driver of CUDA or HIP without using their headers. With the
// headers, include cuda.h or hip/hip_runtime.h instead and call the functions
// that the comments name.
//
//===----------------------------------------------------------------------===//

#ifndef DRIVER_H
#define DRIVER_H

#include <cstdint>
#include <string>

/// Stands for CUtensorMap.
struct alignas(64) TensorMap {
  char bytes[128];
};

struct LaunchShape {
  unsigned grid[3], block[3], shared, cluster[3] = {1, 1, 1};
  bool cooperative, programmatic;
};

/// Arguments of cuTensorMapEncodeTiled, innermost dimension first. The
/// innermost stride is omitted.
struct TensorMapShape {
  int type;
  unsigned rank;
  char *address;
  uint64_t sizes[5], strides[4];
  unsigned box[5];
  int swizzle, promotion;
};

/// The first device of a vendor. Every failure throws an Error.
class Driver {
public:
  /// `kind` is that of the manifest's target: "nvvm" or "rocdl".
  explicit Driver(const std::string &kind);

  /// Returns a device attribute by its name in manifests.
  int64_t getAttribute(const std::string &name) const;
  /// Returns false if the device does not accept the image.
  bool load(const std::string &image);
  void *getKernel(const std::string &name, unsigned sharedBytes) const;
  void launch(void *kernel, const LaunchShape &shape, void **params) const;
  TensorMap encode(const TensorMapShape &shape) const;
  void wait() const;

  char *allocate(uint64_t bytes) const;
  void upload(char *to, const std::string &from) const;
  std::string download(const char *from, uint64_t bytes) const;

  bool isCuda() const { return cuda; }

private:
  template <typename... Args>
  int call(const char *ofCuda, const char *ofHip, Args... args) const;
  template <typename... Args>
  void check(const char *ofCuda, const char *ofHip, Args... args) const;
  int readNumber(int ofCuda, int ofHip) const;

  bool cuda;
  void *library;
  int device = 0;
  void *module = nullptr;
};

#endif // DRIVER_H
