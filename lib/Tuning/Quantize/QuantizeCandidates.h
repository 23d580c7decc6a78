//===- QuantizeCandidates.h - Candidates by schedule ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What the ways to go over a quantization's input (TileSchedule) implement, one
// file each, for QuantizeTiles.cpp to choose from, and what their models share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TUNING_QUANTIZE_QUANTIZECANDIDATES_H
#define FP8MOE_LIB_TUNING_QUANTIZE_QUANTIZECANDIDATES_H

#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {

/// Appends the tiles of one schedule that are legal for a quantization on a
/// GPU, with their costs; nothing when the schedule does not take its layouts.
/// `work` has nominal sizes for those that are not known.
void addTwoPassTiles(const QuantizeWork &work, const TargetInfo &target,
                     SmallVectorImpl<QuantizeTileCost> &tiles);
/// A kernel for any length of slices holds the same number of chunks.
void addHeldTiles(const QuantizeWork &work, bool isLengthKnown,
                  const TargetInfo &target,
                  SmallVectorImpl<QuantizeTileCost> &tiles);

/// The same for tensor maps, which also ask what is known for sure: `known` is
/// the quantization as it is.
void addStreamedTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                      const TargetInfo &target,
                      SmallVectorImpl<QuantizeTileCost> &tiles);

/// The same for whole columns.
void addColumnsTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                     const TargetInfo &target,
                     SmallVectorImpl<QuantizeTileCost> &tiles);

/// Known sizes for those that are not.
QuantizeWork withNominalSizes(QuantizeWork work);

/// Whether the rows of a buffer are contiguous and its columns are not. A
/// single column is contiguous with any stride, but has nothing to go along.
bool isAlongRows(int64_t rowStride, int64_t columnStride, int64_t columns);

/// Whether the columns of an output whose rows are contiguous are known to
/// begin anywhere in 16 bytes, so that they are not stored 16 bytes at a time.
bool hasUnalignedColumns(const QuantizeWork &work);

/// Picoseconds that unaligned columns add to a transposed kernel, with so many
/// for each element.
int64_t estimateUnalignedStores(const QuantizeWork &work, double elementTime);

/// Bytes of the sectors that hold `bytes` when they are touched in runs.
int64_t countSectorBytes(int64_t bytes, int64_t runBytes,
                         const TargetInfo &target);

/// The root of the sum of squares of two times, which stands for what overlaps:
/// little more than the longer one, 1.41 times equal ones.
int64_t overlapTimes(int64_t traffic, int64_t latency);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_QUANTIZE_QUANTIZECANDIDATES_H
