//===- BitField.h - Numbers and flags in one word ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_BITFIELD_H
#define FP8MOE_LIB_KERNELS_EMIT_BITFIELD_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// A field of `bits` bits in an i32, from bit `offset` on. A field of one bit
/// is a flag. Combine the words of several fields with bitOr.
struct BitField {
  int64_t offset;
  int64_t bits = 1;

  constexpr int64_t getMask() const {
    return ((int64_t(1) << bits) - 1) << offset;
  }
  /// Returns the number in the field.
  Value get(KernelBuilder &b, Value word) const {
    Value shifted = offset ? b.shiftRight(word, offset) : word;
    bool isHighest = offset + bits == kWordBits;
    return isHighest ? shifted : b.bitAnd(shifted, getMask() >> offset);
  }
  /// Whether any bit of the field is set (i1).
  Value isSet(KernelBuilder &b, Value word) const {
    return b.isNonZero(b.bitAnd(word, getMask()));
  }
  /// Returns a word with `value`, which must fit, in the field and zeros
  /// elsewhere.
  Value place(KernelBuilder &b, Value value) const {
    return offset ? b.shiftLeft(value, offset) : value;
  }
  /// Returns a word with all bits of the field set if `condition`, else zero.
  Value setIf(KernelBuilder &b, Value condition) const {
    return b.select(condition, b.i32(getMask()), 0);
  }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_BITFIELD_H
