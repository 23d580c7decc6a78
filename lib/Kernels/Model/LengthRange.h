//===- LengthRange.h - Ranges as lengths of slices --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The meaning of a range on an operation, mostly for mean lengths. The compiler
// asks for it where it knows the sizes, on the card that the target describes,
// and the host for those of the call: T is int64_t or HostSize.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MODEL_LENGTHRANGE_H
#define FP8MOE_LIB_KERNELS_MODEL_LENGTHRANGE_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// The sizes from which ranges of bytes follow, besides the length.
template <typename T> struct RangeSizes {
  /// Elements across those that share a scale, and the bytes of each.
  T parallel;
  int64_t elementBytes;
  /// Bytes of the second-level cache; asked only for a part of them.
  function_ref<T()> getL2Bytes;
};

/// The mean length up to which a group has at most so many bytes. Dividing the
/// bound cannot overflow, and is as exact as multiplying the length:
/// n * b <= B holds where n <= floor(B / b).
template <typename T>
T computeLengthOfBytes(const T &bytes, const RangeSizes<T> &sizes) {
  int64_t acrossBytes =
      multiplySizes(getKnown(sizes.parallel).value_or(ShapedType::kDynamic),
                    sizes.elementBytes);
  // Nothing is in a group that is empty; any result will do.
  if (!ShapedType::isDynamic(acrossBytes))
    return bytes / T(std::max<int64_t>(acrossBytes, 1));
  T elements = bytes / T(sizes.elementBytes);
  T parallel = maxOf(sizes.parallel, T(1));
  return elements / parallel;
}

/// A bound of a range, as a mean length.
template <typename T>
T computeBound(int64_t bound, RangeAttr range, const RangeSizes<T> &sizes) {
  if (range.getQuantity() != Quantity::GroupBytes)
    return T(bound);
  if (!range.getPercentOfL2())
    return computeLengthOfBytes(T(bound), sizes);
  // Drivers give the bytes of a cache in 32 bits, and there are at most 1000
  // percent.
  return computeLengthOfBytes(sizes.getL2Bytes() * T(bound) / T(100), sizes);
}

/// The upper bound of a range, if it ends, and its exclusive lower bound, if
/// there is one.
template <typename T>
std::optional<T> computeUpTo(RangeAttr range, const RangeSizes<T> &sizes) {
  if (range.getUpTo() == kUnbounded)
    return std::nullopt;
  return computeBound(range.getUpTo(), range, sizes);
}
template <typename T>
std::optional<T> computeAbove(RangeAttr range, const RangeSizes<T> &sizes) {
  if (range.getAbove() == 0)
    return std::nullopt;
  return computeBound(range.getAbove(), range, sizes);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MODEL_LENGTHRANGE_H
