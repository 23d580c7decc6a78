//===- MXQuantize.h - MX block scales and data ---------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXQUANTIZE_H
#define FP8MOE_LIB_KERNELS_MX_MXQUANTIZE_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

#include <array>

namespace mlir::fp8moe {

/// The sizes of an MX quantization and the strides of its buffers, in elements.
/// Element (s, l, i), the i-th of line l of segment s, lies at
/// s * inSegment + l * inLine + i * inElement in the input, correspondingly in
/// the output. Blocks divide lines. The scales of a line lie next to each
/// other, from s * scaleSegment + l * scaleLine on where they are not in tiles.
template <typename T> struct MXSizes {
  T segments, lines, elements;
  T inSegment, inLine, inElement;
  T outSegment, outLine, outElement;
  T scaleSegment, scaleLine;

  static constexpr auto members() {
    using S = MXSizes;
    return std::array{&S::segments,     &S::lines,    &S::elements,
                      &S::inSegment,    &S::inLine,   &S::inElement,
                      &S::outSegment,   &S::outLine,  &S::outElement,
                      &S::scaleSegment, &S::scaleLine};
  }
};

/// The axis that jagged groups divide.
enum class MXGroups { None, Lines, Elements };

/// Data in FP8 and a scale byte for each block, along one axis.
struct MXQuantizeProblem {
  /// bf16 or f32.
  Type inputType;
  /// A builtin f8 type that the target converts to.
  Type fp8Type;
  MXMode mode = MXMode::RCeil;
  /// Whether scales are in tiles of 128 lines and 4 blocks (X6), as those of
  /// groups are.
  bool tiledScales = false;
  MXGroups groups = MXGroups::None;
  /// Whether lines are the rows of tiles, which groups divide, or the columns.
  bool linesAreRows = true;
  /// Whether blocks have 32 lines (X9).
  bool square = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  MXSizes<int64_t> sizes;
};

/// Whether the input is read and data are written along lines, or across them;
/// and the threads of a block, which takes tiles of 128 lines and 4 blocks.
bool readsAlongLines(const MXQuantizeProblem &problem);
bool writesAlongLines(const MXQuantizeProblem &problem);
int64_t countMXThreads(const MXQuantizeProblem &problem);

/// The kernel of a problem, or of two that read one tensor along its two axes,
/// the first of them across its contiguous dimension. Its pointers are input,
/// offsets (with groups only), and output and scales of each problem; then come
/// the dynamic sizes of each in the order of `members`.
void buildMXQuantize(KernelBuilder &b, ArrayRef<MXQuantizeProblem> problems);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXQUANTIZE_H
