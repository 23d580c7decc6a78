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

/// Size of the largest group as a multiple of the mean, as its blocks end last.
/// Tiles are calibrated with groups of 0.5 to 1.5 means. Without this factor,
/// tiles that read twice look up to 1.5 times faster than measured
/// (benchmarks/calibration_shapes.json).
inline constexpr double kLargestGroup = 1.45;

/// Returns `work` with nominal sizes for dynamic ones.
QuantizeWork withNominalSizes(QuantizeWork work);

/// Returns the kernels to choose from at run time, in ascending order of
/// lengths. There is only one, unless the slice length is dynamic and decides.
/// General kernels support every address, pitch and size.
SmallVector<AlternativeAttr> getQuantizeAlternatives(const QuantizeWork &work,
                                                     const TargetInfo &target,
                                                     bool areGeneral);

/// Returns the slice lengths at which the choice may change, ascending.
ArrayRef<int64_t> getTypicalLengths();

/// Returns `nominal` with a group length between `limit` and the typical length
/// before it. Where `known` has no number of groups, the total number of rows
/// stays.
QuantizeWork withTypicalGroups(const QuantizeWork &known, QuantizeWork nominal,
                               int64_t limit);

/// Returns the tiles that are legal for `known`, of general kernels only if
/// `areGeneral`. Their costs are those of `nominal` sizes.
SmallVector<QuantizeTileCost> rankQuantizeTiles(const QuantizeWork &known,
                                                const QuantizeWork &nominal,
                                                const TargetInfo &target,
                                                bool areGeneral = false);

/// Returns the sizes and strides of `work` as types know them, and 0 for
/// others.
QuantizeSizes<int64_t> getKnownSizes(const QuantizeWork &work);

/// Whether a buffer is contiguous along rows, and not along columns as well. A
/// buffer of one column counts as along rows with any column stride. So does a
/// buffer without columns, as models assume one.
bool isAlongRows(int64_t rowStride, int64_t columnStride, int64_t columns);

/// Whether the output is contiguous along rows, with a column pitch known not
/// to be a multiple of 16 bytes.
bool hasUnalignedColumns(const QuantizeWork &work);

/// Whether, beyond hasUnalignedColumns, an aligned 16-byte chunk of the output
/// is misaligned in the input. The input is contiguous along rows as well.
bool hasChunksApart(const QuantizeWork &work);

/// Returns the picoseconds that unaligned columns add to a transposed kernel,
/// at `elementTime` per element.
int64_t estimateUnalignedStores(const QuantizeWork &work, double elementTime);

/// Returns the bytes of all memory sectors that accesses of `bytes` touch, in
/// extents of `contiguousBytes`.
int64_t countSectorBytes(int64_t bytes, int64_t contiguousBytes,
                         const TargetInfo &target);

/// Combines two times that overlap: the root of the sum of their squares. The
/// result is little more than the longer time, and 1.41 times either of equal
/// times.
int64_t overlapTimes(int64_t traffic, int64_t latency);

/// Explains the cost of a tile beside the best alternative. Empty where the
/// tile is no candidate.
std::string explainTile(SmallVector<KernelCandidate> candidates,
                        TileAttrInterface tile);

/// Returns the time of the operation on rows that computes the input tensor, as
/// a kernel of its own. It is 0 without such an operation that the quantization
/// can fuse. `columns` is the quantization along columns.
int64_t estimateSource(const QuantizeWork &columns, const TargetInfo &target);

/// Returns the cost of a tile for both axes. It includes the operation that
/// computes the input, unless the tile fuses it.
Cost estimateWithSource(const QuantizeTileCost &tile,
                        const QuantizeWork &columns, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZECANDIDATES_H
