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

/// Bytes of a FoundSegment in global memory, one for each tile of lines.
inline constexpr int64_t kFoundTileBytes = 2 * kVectorBytes;

/// The problem as both kernels of #fp8moe.rescaled_both_axes see it: a tensor
/// whose segments are quantized along their rows and along their columns. A
/// line is a row of a segment. `columns` reduces over lines; for `lines` each
/// line is a slice, which QuantizeKernel calls a column.
struct RescaledKernel {
  /// The quantization over the rows of a segment (slices are columns), and over
  /// its columns (slices are lines).
  QuantizeKernel columns, lines;
  /// Address of the amax of each column of each segment, as f32 bits (i32).
  Value magnitudes;
  /// Jagged only: address of the result of findSegment for each tile of lines.
  /// Its words are the segment's index and bounds, then firstTileRow. The
  /// kernel that quantizes lines computes it once for all tiles with these
  /// lines.
  Value foundTiles;
  /// Computes lines of the input where the operation that produces it is fused.
  std::optional<RowSource> source;

  KernelBuilder &getBuilder() { return columns.b; }
  /// Returns the address of a column's amax.
  Value getMagnitude(Value segment, Value column) {
    KernelBuilder &b = getBuilder();
    Value word = b.add(b.mul(segment, columns.sizes.parallel), column);
    return b.offsetBytes(magnitudes, b.mul(word, kWordBytes));
  }
  /// Returns the address of a line tile's words in `foundTiles`.
  Value getFoundTile(Value lineTile) {
    KernelBuilder &b = getBuilder();
    return b.offsetBytes(foundTiles, b.mul(lineTile, kFoundTileBytes));
  }
  /// Returns a segment as `lines` sees it. Jagged segments lie in one matrix.
  SegmentView createLines(Value segment) {
    return lines.createSegment(columns.problem.jagged ? getBuilder().i64(0)
                                                      : segment);
  }
};

/// Builds the first kernel, which reads the input. It quantizes lines, and
/// reduces the amax of columns into memory that is zero before the launch. A
/// work tile has `linesPerTile` (i64) lines. `lineTiles` (i64) is the number of
/// tiles per column strip in the second kernel.
void buildRescaledLines(RescaledKernel &kernel, RescaledBothAxesTileAttr tile,
                        Value linesPerTile, Value lineTiles);

/// Builds the second kernel, which reads the quantized lines. It rescales them
/// to the scales of columns, and transposes them.
void buildRescaledColumns(RescaledKernel &kernel, Value lineTiles);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBOTHAXES_H
