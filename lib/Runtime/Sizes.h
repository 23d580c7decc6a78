//===- Sizes.h - Evaluating the sizes of a program --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_SIZES_H
#define FP8MOE_LIB_RUNTIME_SIZES_H

#include "Manifest.h"
#include "fp8moe-c/Runtime.h"

#include <vector>

namespace fp8moe::runtime {

/// A buffer with every size known.
struct ResolvedBuffer {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  /// The distance from the first byte to behind the last one; 0 where an extent
  /// is 0.
  uint64_t bytes = 0;
};

/// The sizes of one call: an entry for each of Program::buffers and
/// Program::values.
struct ResolvedSizes {
  std::vector<ResolvedBuffer> buffers;
  std::vector<int64_t> values;
  /// Whether a value depends on a stride that has no effect, because its
  /// dimension has at most one element or its tensor none. Libraries of arrays
  /// put anything there, so nobody may be refused because of it.
  std::vector<bool> moot;

  int64_t get(const Scalar &scalar) const { return scalar.get(values); }
  bool isMoot(const Scalar &scalar) const {
    return scalar.isValue && moot[scalar.number];
  }
};

/// Answers programs that ask about their device. This base class is the CPU and
/// no device, where everything is 1: programs may divide by it.
class DeviceAttributes {
public:
  virtual ~DeviceAttributes() = default;

  /// At least 1. Throws Error when the device does not say. Thread-safe.
  virtual int64_t getAttribute(DeviceAttribute) const { return 1; }
};

/// Checks the caller's inputs against `program` and computes everything that
/// follows from them. Values that depend on addresses are computed as if every
/// address were aligned. Throws Error when an input does not fit, arithmetic
/// overflows or divides by zero, or a size comes out negative.
ResolvedSizes resolveSizes(const Program &program,
                           const DeviceAttributes &device,
                           const fp8moe_tensor *inputs, size_t numInputs);

/// Computes the values that depend on addresses again, now that there are
/// `pointers`, one for each buffer. Throws Error.
void computeLateValues(const Program &program, void *const *pointers,
                       std::vector<int64_t> &values);

/// How messages name a buffer: "input 'grad'", "output 'q'", "workspace 4".
std::string describe(const Program &program, size_t buffer);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_SIZES_H
