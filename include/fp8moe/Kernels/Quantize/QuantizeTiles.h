//===- QuantizeTiles.h - Tiles of quantize kernels --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The tiles that a quantize kernel can have and what each costs: the one place
// that layout placement, tile selection and the lowering to kernels ask. So the
// time that placement compares is that of the tile which is then compiled.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H
#define FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H

#include "fp8moe/Kernels/Model/KernelWork.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// Output elements (bytes) in a 16-byte chunk. Work along a contiguous
/// dimension is dealt in this many elements, whatever the width of the input.
inline constexpr int64_t kOutputChunk = 16;

/// Which dimensions are contiguous in input and output, so that kernels access
/// both along them.
enum class QuantizeKind {
  /// Rows contiguous on both sides: a subgroup takes one column.
  Inner,
  /// Columns contiguous on both sides, or nothing known: a block takes a
  /// strip of columns.
  Outer,
  /// Columns contiguous in the input, rows in the output: as Outer, through
  /// shared memory.
  OuterTransposing,
  /// Rows contiguous in the input, columns in the output: the reverse.
  InnerTransposing,
};

/// "inner", "outer", "outer_transposing" or "inner_transposing".
StringRef stringifyQuantizeKind(QuantizeKind kind);

/// The parallel dimensions: at most one that segments loop over,
/// and one of columns.
struct QuantizeDims {
  std::optional<int64_t> segment, column;
};

/// Which dimension is which, for strides in elements (kDynamic when unknown):
/// columns should be contiguous somewhere, as blocks take many at a time. None
/// when there are more than two besides `axis`.
std::optional<QuantizeDims> assignQuantizeDims(int64_t axis,
                                               ArrayRef<int64_t> inputStrides,
                                               ArrayRef<int64_t> outputStrides);

/// A quantization along one axis, as far as tiles depend on it. Sizes may be
/// kDynamic and stand for their nominal values then.
struct QuantizeWork : KernelWorkBase<QuantizeWork> {
  /// Where tiles are made.
  MLIRContext *context = nullptr;
  /// Experts or jagged groups.
  int64_t segments = 1;
  /// Rows of each segment, or of all jagged ones together; they are reduced.
  int64_t rows = 1;
  int64_t columns = 1;
  bool jagged = false;
  /// Whether scales are powers of two.
  bool powerOfTwo = false;
  /// Bytes of an input element; those of the output have one.
  int64_t inputBytes = 2;
  /// Strides of rows and columns, in elements.
  int64_t inputRowStride = 1, inputColumnStride = 1;
  /// 0 where segments are no dimension of the input.
  int64_t inputSegmentStride = 0;
  /// That dimension, if they are one.
  std::optional<int64_t> segmentDim;
  /// Type of the values; null where nothing depends on it.
  Type fp8Type;
  int64_t outputRowStride = 1, outputColumnStride = 1;
  /// Every jagged segment begins at a multiple of this in the output.
  int64_t outputPadding = 1;
  /// Bytes for each row of the tensor that an operation on rows reads to
  /// compute it, if a kernel may do that itself: nobody else wants the tensor.
  std::optional<int64_t> sourceBytes;
  /// The values are not used. Tiles are ranked as if there were an output that
  /// lies as the input does.
  bool scalesOnly = false;
};

/// The quantizations along both axes of one tensor.
struct BothAxesWork : KernelWorkBase<BothAxesWork> {
  explicit BothAxesWork(ArrayRef<QuantizeWork> axes) : axes(axes) {}

  SmallVector<QuantizeWork, 2> axes;
};

/// The kind that the layouts of a quantization need.
QuantizeKind getQuantizeKind(const QuantizeWork &work);

/// A tile and its predicted cost, with the terms that it is made of.
struct QuantizeTileCost {
  TileAttrInterface tile;
  /// One launch, and the longer of the two times below.
  Cost cost;
  /// Picoseconds of moving the sectors at the speed of a copy.
  int64_t trafficTime;
  /// Picoseconds that the blocks wait for memory, one wave after the other.
  int64_t latencyTime;
  /// Blocks' worth of work, and how many of them the chip holds at once.
  int64_t workTiles, residentWorkTiles;
  /// The second read of the input finds what the first one left in L2.
  bool rereadsFromCache;

  int64_t getWaves() const {
    return llvm::divideCeil(workTiles, residentWorkTiles);
  }
};

/// The tiles that are legal for a quantization on a GPU, smaller ones first.
SmallVector<QuantizeTileCost> rankQuantizeTiles(const QuantizeWork &work,
                                                const TargetInfo &target);

/// The mean length of slices: the rows, divided by the number of groups where
/// there are any. kDynamic where that is only known at run time.
int64_t getMeanLength(const QuantizeWork &work);

/// The kernels to choose from at run time: what does not take everything stands
/// before what does.
KernelChoiceAttr chooseQuantizeKernels(const QuantizeWork &work,
                                       const TargetInfo &target);

/// `choice`, with something that takes everything behind it.
KernelChoiceAttr completeQuantizeKernels(KernelChoiceAttr choice,
                                         const QuantizeWork &work,
                                         const TargetInfo &target);

/// Whether a range holds on the target's card, or may, as sizes are not known.
bool mayBeInRange(RangeAttr range, const QuantizeWork &work,
                  const TargetInfo &target);

/// The part of an operation's choice that is about one of its axes; null for
/// null.
KernelChoiceAttr getAxisChoice(KernelChoiceAttr choice, unsigned index);

/// The tile of least predicted time; the smallest of several.
const QuantizeTileCost &chooseQuantizeTile(ArrayRef<QuantizeTileCost> tiles);

/// Kernels of one family that quantize a tensor along both axes, columns and
/// whole rows.
struct BothAxesAlternative {
  QuantizeTileCost tile;
  /// The groups for which they are worthwhile, on each card of the target; null
  /// for all.
  RangeAttr range;
  /// Whether they are predicted to take clearly less time than a kernel for
  /// each axis, for some groups at least.
  bool isWorthwhile = false;
};

/// The alternatives that take the layouts, in the order in which they are
/// asked. `works` are those of the operation.
SmallVector<BothAxesAlternative>
getBothAxesAlternatives(ArrayRef<QuantizeWork> works, const TargetInfo &target);

/// The one with a tile; none where that does not take the works.
std::optional<BothAxesAlternative>
findBothAxesTile(TileAttrInterface tile, ArrayRef<QuantizeWork> works,
                 const TargetInfo &target);

/// A choice of kernels for each axis, as the last alternative.
AlternativeAttr choosePerAxisKernels(ArrayRef<QuantizeWork> works,
                                     const TargetInfo &target);

/// Tiles for both axes, and kernels for each axis behind them.
KernelChoiceAttr chooseBothAxesKernels(ArrayRef<QuantizeWork> works,
                                       const TargetInfo &target);

/// The cost of the best kernel for each of several quantizations.
Cost estimateApart(ArrayRef<QuantizeWork> works, const TargetInfo &target);

/// The tile for both axes on the target's card, where `op` names it, or names
/// none and a kernel for each axis is predicted to take clearly longer.
std::optional<QuantizeTileCost> chooseBothAxesTile(Operation *op,
                                                   ArrayRef<QuantizeWork> works,
                                                   const TargetInfo &target);

/// Whether there is one on any card of the target.
bool hasBothAxesTile(Operation *op, ArrayRef<QuantizeWork> works,
                     const TargetInfo &target);

/// The quantizations along one axis each that an operation makes, on a GPU each
/// a kernel. Tensors have the assumed layouts, the others those of their types.
/// Empty when `op` is no quantization, or one that no kernel takes. A cast by
/// given scales is the dynamic quantization that it may become with them;
/// scales alone are one whose values nobody wants.
SmallVector<QuantizeWork, 2>
getQuantizeWorks(Operation *op, ArrayRef<AssumedLayout> layouts = {});

/// The least cost over the tiles of a quantization on a GPU, or of the
/// tile that it names; impossible when that is not legal for the layouts. None
/// when `getQuantizeWorks` is empty.
std::optional<Cost> estimateQuantize(Operation *op,
                                     ArrayRef<AssumedLayout> layouts,
                                     const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H
