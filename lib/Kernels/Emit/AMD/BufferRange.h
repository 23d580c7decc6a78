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

/// A range of memory behind a buffer descriptor: loads and stores name bytes by
/// 32-bit offsets. Bytes behind the end read as zero and are not written.
/// Accesses need no more than the alignment of an element.
class BufferRange {
public:
  /// The most bytes of a range, and an offset that is outside of every one,
  /// with some room for what is added to it.
  static constexpr int64_t kMostBytes = 0x7FFFFF00;
  static constexpr int64_t kOutside = 0x7FFFFF80;

  BufferRange() = default;
  /// `bytes` (i64, clamped to [0, kMostBytes]) from `base` on, which is a
  /// pointer to global memory. Both are uniform in the wave.
  BufferRange(KernelBuilder &b, Value base, Value bytes);

  /// This range where `condition` (i1, uniform) holds, else an empty one.
  BufferRange onlyIf(KernelBuilder &b, Value condition) const;

  /// `offset` (i32) is what is compared with the range. `uniform` (i32) is
  /// added to it. Documents differ in whether the hardware compares the sum, so
  /// that it must not make a difference.
  Value load(KernelBuilder &b, Type type, Value offset,
             Value uniform = Value()) const;
  void store(KernelBuilder &b, Value value, Value offset) const;
  /// Begins to load `bytes` a lane to `shared` + lane * bytes, which is uniform
  /// in the wave. The scopes say what else in shared memory it may touch.
  void loadToShared(KernelBuilder &b, Value shared, int64_t bytes, Value offset,
                    Value uniform, ArrayAttr aliasScopes,
                    ArrayAttr noaliasScopes) const;

private:
  void createDescriptor(KernelBuilder &b);

  /// `bytes` is i64 within the limits.
  Value base, bytes, descriptor;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_AMD_BUFFERRANGE_H
