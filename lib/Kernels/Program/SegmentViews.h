//===- SegmentViews.h - Tensors of operations on segments -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_SEGMENTVIEWS_H
#define FP8MOE_LIB_KERNELS_PROGRAM_SEGMENTVIEWS_H

#include "Kernels/Emit/SegmentTiles.h"
#include "Kernels/Program/ProgramLowering.h"

namespace mlir::fp8moe {

/// Where the tensors of an operation on segments are: data in and out, scales,
/// and for jagged segments their end rows.
struct SegmentViews {
  BufferView input, scales, output;
  std::optional<BufferView> offsets;
};

/// Which dimensions of the data are segments, rows and columns.
struct SegmentDims {
  std::optional<int64_t> segment;
  int64_t rows;
  std::optional<int64_t> column;
};

/// Returns all sizes but the strides of scales, which are 0.
SegmentSizes<OpFoldResult> getSegmentSizes(const SegmentDims &dims,
                                           const SegmentViews &views,
                                           OpBuilder builder);

/// Returns the sizes of an operation with scales for blocks along `axis`. The
/// axis has the rows if `areRows`, else the columns. Scales in tiles have no
/// strides.
SegmentSizes<OpFoldResult> getBlockSizes(int64_t axis, bool areRows,
                                         const SegmentViews &views,
                                         OpBuilder builder);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_SEGMENTVIEWS_H
