//===- BufferRange.h - Memory by 32-bit offsets -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_AMD_BUFFERRANGE_H
#define FP8MOE_LIB_KERNELS_EMIT_AMD_BUFFERRANGE_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// A range of memory accessed through a buffer descriptor, by 32-bit byte
/// offsets. Loads past the end return zero, and stores past it are dropped.
/// Accesses need only the alignment of an element.
class BufferRange {
public:
  /// Upper bound on the bytes of a range, and an offset outside of every range.
  /// The offset leaves room for additions without wrapping.
  static constexpr int64_t kMostBytes = 0x7FFFFF00;
  static constexpr int64_t kOutside = 0x7FFFFF80;

  BufferRange() = default;
  /// Creates the range of `bytes` (i64, clamped to [0, kMostBytes]) from `base`
  /// on, a pointer to global memory. Both are uniform in the wave.
  BufferRange(KernelBuilder &b, Value base, Value bytes);

  /// Returns this range where `condition` (i1, uniform) holds, else an empty
  /// range.
  BufferRange onlyIf(KernelBuilder &b, Value condition) const;

  /// Loads at `offset` + `uniform` (i32). The hardware checks `offset` against
  /// the range. Documents differ in whether it checks the sum instead, so both
  /// checks must give the same result.
  Value load(KernelBuilder &b, Type type, Value offset,
             Value uniform = Value()) const;
  void store(KernelBuilder &b, Value value, Value offset) const;
  /// Starts a load of `bytes` a lane to `shared` + lane * bytes. `shared` is
  /// uniform in the wave. The scopes say which other accesses of shared memory
  /// may alias.
  void loadToShared(KernelBuilder &b, Value shared, int64_t bytes, Value offset,
                    Value uniform, ArrayAttr aliasScopes,
                    ArrayAttr noaliasScopes) const;

private:
  void createDescriptor(KernelBuilder &b);

  /// `bytes` is an i64, clamped already.
  Value base, bytes, descriptor;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_AMD_BUFFERRANGE_H
