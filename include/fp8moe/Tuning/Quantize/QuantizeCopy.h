//===- QuantizeCopy.h - Quantized rows and their transpose ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// fp8moe.dynamic_quantize_copy, as its kernel sees it: lines of a tensor, which
// are contiguous in the input and in the data and have a scale each, and which
// are the contiguous dimension of the copy.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_QUANTIZE_QUANTIZECOPY_H
#define FP8MOE_TUNING_QUANTIZE_QUANTIZECOPY_H

#include "fp8moe/Tuning/Common/MemoryCost.h"

namespace mlir::fp8moe {

/// Which dimension is which, besides the axis.
struct QuantizeCopyDims {
  int64_t line;
  std::optional<int64_t> segment;
};

struct QuantizeCopyWork : KernelWorkBase<QuantizeCopyWork> {
  RankedTensorType input, data, copy;
  StridedLayout from, dataLayout, copyLayout;
  int64_t axis;
  /// Scales are powers of two.
  bool powerOfTwo;

  static QuantizeCopyWork get(DynamicQuantizeCopyOp op,
                              ArrayRef<AssumedLayout> layouts = {});
  /// None where lines are not as they must be.
  std::optional<QuantizeCopyDims> getDims() const;
};

/// A tile is so many whole lines, or an equal part of each for every block of a
/// cluster, in FP8, in the shared memory of a block.
struct QuantizeCopyTile {
  int64_t lines, threads, cluster;
  /// Elements of a line that a block has.
  int64_t columns = 0;
  /// Warps that share these, and chunks of 16 elements that a thread has.
  int64_t lineWarps = 1, chunks = 0;
  /// Blocks on a multiprocessor.
  int64_t residentBlocks = 0;

  /// The tile of an operation; none where it is not legal.
  static std::optional<QuantizeCopyTile> get(QuantizeCopyTileAttr tile,
                                             const QuantizeCopyWork &work,
                                             const TargetInfo &target);

  /// From a line to the next one: whole rows of banks.
  int64_t getPitch() const;
  int64_t getSharedBytes() const { return lines * getPitch(); }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_QUANTIZE_QUANTIZECOPY_H
