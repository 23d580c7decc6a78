//===- QuantizeSizes.h - The sizes of a quantization ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZESIZES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZESIZES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

#include <array>

namespace mlir::fp8moe {

/// Upper bound on rows, columns, segments and tiles, which are counted in i32.
/// It leaves room for sums.
inline constexpr int64_t kMaxCount = int64_t(1) << 30;

/// The sizes of a quantization and the strides of its buffers, in elements.
/// Element (g, r, c), for a row r of segment g and a column c, lies at
/// g * inSegment + r * inReduction + c * inParallel in the input,
/// correspondingly in the output, and its scale at g * scaleSegment + c *
/// scaleParallel.
template <typename T> struct QuantizeSizes {
  /// Number of segments.
  T segments;
  /// Rows: of every segment, or of all jagged segments together.
  T reduction;
  /// Columns: each has its own scale in every segment.
  T parallel;
  /// Rows of the output tensor. Only read when segments are padded.
  T extent;
  T inSegment, inReduction, inParallel;
  T outSegment, outReduction, outParallel;
  T scaleSegment, scaleParallel;

  static constexpr auto members() {
    using S = QuantizeSizes;
    return std::array{&S::segments,    &S::reduction,    &S::parallel,
                      &S::extent,      &S::inSegment,    &S::inReduction,
                      &S::inParallel,  &S::outSegment,   &S::outReduction,
                      &S::outParallel, &S::scaleSegment, &S::scaleParallel};
  }
};

/// The tensor extents and strides that determine a QuantizeSizes. T is int64_t
/// (sizes from types, possibly kDynamic) or OpFoldResult (sizes on the host).
template <typename T> struct QuantizeTensors {
  T zero, one;
  /// Extents and strides of the input.
  ArrayRef<T> sizes, inputStrides;
  /// Empty where the result is not used, or was not asked for.
  ArrayRef<T> outputStrides, scaleStrides;
  /// The number of jagged groups.
  std::optional<T> groups;
};

/// Returns the sizes of the quantization along `axis` with other dimensions
/// `dims`. The extent is 0.
template <typename T>
QuantizeSizes<T> getQuantizeSizes(const QuantizeTensors<T> &tensors,
                                  int64_t axis, const QuantizeDims &dims) {
  // A tensor or dimension that is not there has stride 0.
  auto getStride = [&](ArrayRef<T> strides, std::optional<int64_t> dim) -> T {
    return dim && !strides.empty() ? strides[*dim] : tensors.zero;
  };
  // Scales lack the axis.
  auto getScaleStride = [&](std::optional<int64_t> dim) -> T {
    return getStride(tensors.scaleStrides,
                     dim ? std::optional(*dim - (*dim > axis)) : dim);
  };
  auto getSize = [&](std::optional<int64_t> dim) -> T {
    return dim ? tensors.sizes[*dim] : tensors.one;
  };
  QuantizeSizes<T> sizes;
  sizes.segments = getSize(dims.segment);
  sizes.reduction = getSize(axis);
  sizes.parallel = getSize(dims.column);
  sizes.extent = tensors.zero;
  sizes.inSegment = getStride(tensors.inputStrides, dims.segment);
  sizes.inReduction = getStride(tensors.inputStrides, axis);
  sizes.inParallel = getStride(tensors.inputStrides, dims.column);
  sizes.outSegment = getStride(tensors.outputStrides, dims.segment);
  sizes.outReduction = getStride(tensors.outputStrides, axis);
  sizes.outParallel = getStride(tensors.outputStrides, dims.column);
  sizes.scaleSegment = getScaleStride(dims.segment);
  sizes.scaleParallel = getScaleStride(dims.column);
  if (tensors.groups) {
    // Groups take the place of segments, in the scales too.
    sizes.segments = *tensors.groups;
    sizes.scaleSegment = getStride(tensors.scaleStrides, 0);
    sizes.scaleParallel = getStride(tensors.scaleStrides, 1);
  }
  return sizes;
}

/// A dynamic quantization along one dimension. For each segment g and column c:
/// an amax over the rows, a scale from the amax, and the scaled rows in FP8.
///
/// Segments are uniform (`reduction` rows each) or jagged. Jagged segments are
/// consecutive ranges of the same `reduction` rows, so inSegment and outSegment
/// are 0. The int32 buffer `offsets` holds their end rows. Output rows that
/// belong to no segment are written as zero.
struct AxisQuantizeProblem {
  /// bf16 or f32.
  Type inputType;
  /// A builtin f8 type that the target converts to.
  Type fp8Type;
  bool powerOfTwo = true;
  bool jagged = false;
  /// Whether only scales are computed. There is no output then.
  bool scalesOnly = false;
  /// Every jagged segment begins at a multiple of this in the output.
  int64_t outputPadding = 1;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  QuantizeSizes<int64_t> sizes;
};

/// Returns the mean length of slices, rounded up for jagged segments.
template <typename T>
T computeMeanLength(bool jagged, const T &rows, const T &segments) {
  return jagged ? ceilDiv(rows, segments) : rows;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZESIZES_H
