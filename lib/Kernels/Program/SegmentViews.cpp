//===- SegmentViews.cpp - Tensors of operations on segments ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/SegmentViews.h"

using namespace mlir;
using namespace mlir::fp8moe;

SegmentSizes<OpFoldResult> fp8moe::getSegmentSizes(const SegmentDims &dims,
                                                   const SegmentViews &views,
                                                   OpBuilder builder) {
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  auto get = [](ArrayRef<OpFoldResult> of, std::optional<int64_t> dim,
                OpFoldResult otherwise) { return dim ? of[*dim] : otherwise; };
  SegmentSizes<OpFoldResult> sizes;
  // Groups take the place of segments.
  sizes.segments = views.offsets ? views.offsets->sizes.front()
                                 : get(views.input.sizes, dims.segment, one);
  sizes.rows = views.input.sizes[dims.rows];
  sizes.columns = get(views.input.sizes, dims.column, one);
  sizes.inSegment = get(views.input.strides, dims.segment, zero);
  sizes.inRow = views.input.strides[dims.rows];
  sizes.inColumn = get(views.input.strides, dims.column, zero);
  sizes.outSegment = get(views.output.strides, dims.segment, zero);
  sizes.outRow = views.output.strides[dims.rows];
  sizes.outColumn = get(views.output.strides, dims.column, zero);
  sizes.scaleSegment = sizes.scaleLine = zero;
  return sizes;
}

SegmentSizes<OpFoldResult> fp8moe::getBlockSizes(int64_t axis, bool areRows,
                                                 const SegmentViews &views,
                                                 OpBuilder builder) {
  SmallVector<int64_t> others;
  for (int64_t dim : llvm::seq<int64_t>(views.input.sizes.size()))
    if (dim != axis)
      others.push_back(dim);
  // Verifiers take ranks 2 and 3.
  int64_t line = others.back();
  std::optional<int64_t> segment;
  if (others.size() > 1)
    segment = others.front();
  SegmentDims dims = areRows ? SegmentDims{segment, axis, line}
                             : SegmentDims{segment, line, axis};
  SegmentSizes<OpFoldResult> sizes = getSegmentSizes(dims, views, builder);
  // Scales have the lines before the blocks.
  ArrayRef<OpFoldResult> strides = views.scales.strides;
  if (!strides.empty())
    sizes.scaleLine = strides[others.size() - 1];
  if (!strides.empty() && segment)
    sizes.scaleSegment = strides.front();
  return sizes;
}
