//===- AxisQuantizeProblem.h - Quantize along one dimension -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_AXISQUANTIZEPROBLEM_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_AXISQUANTIZEPROBLEM_H

#include "Kernels/Quantize/QuantizeSizes.h"

namespace mlir::fp8moe {

/// Every dynamic quantization along one dimension. For each segment g and
/// column c: amax over the rows, a scale from amax, and the scaled values of
/// the rows in FP8.
///
/// Segments are uniform (each has `reduction` rows) or jagged: the int32 buffer
/// `offsets` holds the end row of each, and all segments lie behind each other
/// in the same `reduction` rows, so that inSegment and outSegment are 0. Output
/// rows of no segment are written as zero.
struct AxisQuantizeProblem {
  /// bf16 or f32.
  Type inputType;
  /// A builtin f8 type that the target converts to.
  Type fp8Type;
  bool powerOfTwo = true;
  bool jagged = false;
  /// Whether nobody wants the values: there is no output then.
  bool scalesOnly = false;
  /// Every jagged segment begins at a multiple of this in the output.
  int64_t outputPadding = 1;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  QuantizeSizes<int64_t> sizes;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_AXISQUANTIZEPROBLEM_H
