//===- RescaledBothAxes.h - Columns from quantized rows ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBOTHAXES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBOTHAXES_H

#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Rows/RowSource.h"

namespace mlir::fp8moe {

/// Bytes that kernels hand on of a tile of lines.
inline constexpr int64_t kFoundTileBytes = 2 * kVectorBytes;

/// The operation as both kernels of #fp8moe.rescaled_both_axes see it: a tensor
/// whose segments are quantized along their rows and along their columns. A
/// line is a row of a segment: `columns` reduces over lines, and a line is a
/// slice, or column, of `lines`.
struct RescaledKernel {
  /// The quantization along rows of a segment, whose slices are columns, and
  /// that along columns, whose slices are lines.
  QuantizeKernel columns, lines;
  /// The largest magnitude of each column of each segment as f32 bits (i32).
  Value magnitudes;
  /// Jagged only: of each tile of lines, what findSegment says, as words: the
  /// segment and its bounds, then its first row in tiles. The kernel that
  /// quantizes lines finds it once for all tiles with these lines.
  Value foundTiles;
  /// Computes lines of the input, which is no tensor then.
  std::optional<RowSource> source;

  KernelBuilder &getBuilder() { return columns.b; }
  /// Where that of a column lies.
  Value getMagnitude(Value segment, Value column) {
    KernelBuilder &b = getBuilder();
    Value word = b.add(b.mul(segment, columns.sizes.parallel), column);
    return b.offsetBytes(magnitudes, b.mul(word, kWordBytes));
  }
  /// Where a tile of lines has its words.
  Value getFoundTile(Value lineTile) {
    KernelBuilder &b = getBuilder();
    return b.offsetBytes(foundTiles, b.mul(lineTile, kFoundTileBytes));
  }
  /// The lines of a segment as the quantization along them sees it: jagged
  /// segments lie in one matrix.
  SegmentView createLines(Value segment) {
    return lines.createSegment(columns.problem.jagged ? getBuilder().i64(0)
                                                      : segment);
  }
};

/// The pass over the input: quantizes lines, and collects the magnitudes of
/// columns, which are zero when the kernel begins. A work tile has
/// `linesPerTile` lines, an i64. `lineTiles`, an i64, is how many tiles of the
/// other pass have the same columns.
void buildRescaledLines(RescaledKernel &kernel, RescaledBothAxesTileAttr tile,
                        Value linesPerTile, Value lineTiles);

/// The pass over what that one wrote: moves lines to the scales of columns, and
/// transposes them.
void buildRescaledColumns(RescaledKernel &kernel, Value lineTiles);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBOTHAXES_H
