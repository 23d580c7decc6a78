//===- LengthRange.h - Ranges as lengths of slices --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Converts the range of a kernel alternative to bounds of the mean length. The
// compiler evaluates it for static sizes and the card that the target describes
// (T is int64_t), and the host plan for the sizes of a call (T is HostSize).
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MODEL_LENGTHRANGE_H
#define FP8MOE_LIB_KERNELS_MODEL_LENGTHRANGE_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// The sizes that convert a range of group bytes to mean lengths. The length of
/// a group counts its elements that share a scale.
template <typename T> struct RangeSizes {
  /// Elements in the other dimension, each with its own scale, and bytes per
  /// element.
  T parallel;
  int64_t elementBytes;
  /// Returns the bytes of the L2 cache. Called only for bounds in percent of
  /// L2.
  function_ref<T()> getL2Bytes;
};

/// Returns the largest mean length at which a group has at most `bytes` bytes.
/// Dividing the bound cannot overflow, and is as exact as multiplying the
/// length: n * b <= B holds where n <= floor(B / b).
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

/// Converts a bound of a range to a mean length.
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

/// Return the inclusive upper and the exclusive lower bound of a range as mean
/// lengths, or nullopt if the range has no such bound.
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
