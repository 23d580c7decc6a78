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

/// A buffer of a call, with all sizes known.
struct ResolvedBuffer {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  /// The bytes from the first element to the end of the last one; 0 if an
  /// extent is 0.
  uint64_t bytes = 0;
};

/// The sizes of one call, with one entry per Program::buffers and
/// Program::values.
struct ResolvedSizes {
  std::vector<ResolvedBuffer> buffers;
  std::vector<int64_t> values;
  /// Whether a value depends on a stride without effect: its dimension has at
  /// most one element, or its tensor has none. Array libraries put arbitrary
  /// numbers there, so requirements on such values are not enforced.
  std::vector<bool> moot;

  int64_t get(const Scalar &scalar) const { return scalar.get(values); }
  bool isMoot(const Scalar &scalar) const {
    return scalar.isValue && moot[scalar.number];
  }
};

/// The attributes of a device that programs may read. This base class is for
/// the CPU and device "none", where all are 1, as programs may divide by them.
class DeviceAttributes {
public:
  virtual ~DeviceAttributes() = default;

  /// Returns an attribute, at least 1. Throws Error if the device does not
  /// report it. Thread-safe.
  virtual int64_t getAttribute(DeviceAttribute) const { return 1; }
};

/// Checks the caller's inputs against `program` and computes all sizes that
/// follow from them. Values that depend on addresses assume that every address
/// is aligned. Throws Error if an input does not fit, arithmetic overflows or
/// divides by zero, or a size is negative.
ResolvedSizes resolveSizes(const Program &program,
                           const DeviceAttributes &device,
                           const fp8moe_tensor *inputs, size_t numInputs);

/// Recomputes the values that depend on addresses from `pointers`, one per
/// buffer. Throws Error.
void computeLateValues(const Program &program, void *const *pointers,
                       std::vector<int64_t> &values);

/// Returns the name of a buffer in messages: "input 'grad'", "output 'q'",
/// "workspace 4".
std::string describe(const Program &program, size_t buffer);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_SIZES_H
