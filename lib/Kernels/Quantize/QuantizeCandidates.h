//===- QuantizeCandidates.h - What models of quantizations share *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZECANDIDATES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZECANDIDATES_H

#include "Kernels/Quantize/QuantizeSizes.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {

/// Sizes of groups differ, and the blocks that get the largest end last: its
/// size as a multiple of the mean, for the sizes of 0.5 to 1.5 means with which
/// tiles are calibrated. Without it, tiles that read twice look up to 1.5 times
/// faster than measured (benchmarks/calibration_shapes.json).
inline constexpr double kLargestGroup = 1.45;

/// Known sizes for those that are not.
QuantizeWork withNominalSizes(QuantizeWork work);

/// The kernels to choose from at run time: one, unless the length of slices
/// decides and is not known. Ascending lengths. General kernels take every
/// address, every pitch and every size.
SmallVector<AlternativeAttr> getQuantizeAlternatives(const QuantizeWork &work,
                                                     const TargetInfo &target,
                                                     bool areGeneral);

/// The lengths at which alternatives may change, ascending.
ArrayRef<int64_t> getTypicalLengths();

/// `nominal` with groups of a length between one of these and the one before
/// it; where `known` has no number of groups, with as many rows in all.
QuantizeWork withTypicalGroups(const QuantizeWork &known, QuantizeWork nominal,
                               int64_t limit);

/// The least cost of kernels for `known` where sizes are those of `typical`.
Cost estimateTypical(const QuantizeWork &known, const QuantizeWork &typical,
                     const TargetInfo &target);

/// The sizes that `work` has, as types say them; 0 for the others.
QuantizeSizes<int64_t> getKnownSizes(const QuantizeWork &work);

/// Whether the rows of a buffer are contiguous and its columns are not. A
/// single column is contiguous with any stride, but has nothing to go along;
/// without columns models take one.
bool isAlongRows(int64_t rowStride, int64_t columnStride, int64_t columns);

/// Whether the columns of an output whose rows are contiguous are known to
/// begin anywhere in 16 bytes.
bool hasUnalignedColumns(const QuantizeWork &work);

/// Whether 16 aligned bytes of such a column are rows that are not aligned in
/// the input, which is contiguous along rows as well.
bool hasChunksApart(const QuantizeWork &work);

/// Picoseconds that unaligned columns add to a transposed kernel, with so many
/// for each element.
int64_t estimateUnalignedStores(const QuantizeWork &work, double elementTime);

/// Bytes of the sectors that hold `bytes` when they are touched in extents of
/// `contiguousBytes`.
int64_t countSectorBytes(int64_t bytes, int64_t contiguousBytes,
                         const TargetInfo &target);

/// The root of the sum of squares of two times, which stands for what overlaps:
/// little more than the longer one, 1.41 times equal ones.
int64_t overlapTimes(int64_t traffic, int64_t latency);

/// The terms that decide for a tile, and the best alternative; empty where it
/// is no candidate.
std::string explainTile(SmallVector<KernelCandidate> candidates,
                        TileAttrInterface tile);

/// The time of an operation on rows that computes the tensor, as a kernel of
/// its own; 0 where there is none that the quantization's kernel could replace.
/// `columns` is the work along columns.
int64_t estimateSource(const QuantizeWork &columns, const TargetInfo &target);

/// The cost of a tile for both axes, and of that operation if the tile does not
/// compute it.
Cost estimateWithSource(const QuantizeTileCost &tile,
                        const QuantizeWork &columns, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZECANDIDATES_H
