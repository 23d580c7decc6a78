//===- Dequantize.h - Back from FP8 --------------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_FP8MOETOGPU_DEQUANTIZE_DEQUANTIZE_H
#define FP8MOE_CONVERSION_FP8MOETOGPU_DEQUANTIZE_DEQUANTIZE_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"

#include <array>

namespace mlir::fp8moe {

/// The sizes of a dequantization and the strides of its buffers, in elements.
/// Element (g, r, c), for a row r of segment g and a column c, lies at
/// g * inSegment + r * inRow + c * inColumn in the input, correspondingly in
/// the output, and its scale at g * scaleSegment + c * scaleColumn.
template <typename T> struct DequantizeSizes {
  T segments;
  /// Rows of every segment, or of all jagged segments together.
  T rows;
  T columns;
  T inSegment, inRow, inColumn;
  T outSegment, outRow, outColumn;
  T scaleSegment, scaleColumn;

  static constexpr auto members() {
    using S = DequantizeSizes;
    return std::array{&S::segments,     &S::rows,       &S::columns,
                      &S::inSegment,    &S::inRow,      &S::inColumn,
                      &S::outSegment,   &S::outRow,     &S::outColumn,
                      &S::scaleSegment, &S::scaleColumn};
  }
};

/// FP8 data times the scale of each column of each segment.
///
/// Segments are uniform or jagged, as in a QuantizeProblem. Output rows of no
/// segment are written as zero.
struct DequantizeProblem {
  /// A builtin f8 type that the target converts from.
  Type fp8Type;
  /// bf16 or f32.
  Type outputType;
  /// Whether scales are the factors that quantized.
  bool invertsScales = true;
  bool jagged = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t scaleAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  DequantizeSizes<int64_t> sizes;
};

inline constexpr int64_t kDequantizeThreads = 256;

/// The kernel of a problem. Its pointers are input, scales, offsets (jagged
/// only) and output; then come the dynamic sizes in the order of `members`.
gpu::GPUFuncOp buildDequantize(Location loc, gpu::GPUModuleOp module,
                               StringRef name, const DequantizeProblem &problem,
                               const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_FP8MOETOGPU_DEQUANTIZE_DEQUANTIZE_H
