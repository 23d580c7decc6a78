//===- QuantizeTiles.h - Tiles of quantize kernels --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The tiles of quantize kernels and their predicted costs. Layout placement,
// tile selection and the lowering to kernels all use these functions. So
// placement compares times of the tiles that are then compiled.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H
#define FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H

#include "fp8moe/Kernels/Model/KernelWork.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// Output elements (bytes) in a 16-byte chunk. Threads process a contiguous
/// dimension in chunks of this many elements, whatever the width of the input.
inline constexpr int64_t kOutputChunk = 16;

/// Which dimensions are contiguous in input and output, and so accessed with
/// coalescing. Rows are the quantized axis.
enum class QuantizeKind {
  /// Rows contiguous on both sides: one subgroup per column.
  Inner,
  /// Columns contiguous on both sides, or nothing known: one block per strip of
  /// columns.
  Outer,
  /// Columns contiguous in the input, rows in the output: as Outer, but stores
  /// transpose through shared memory.
  OuterTransposing,
  /// Rows contiguous in the input, columns in the output: the reverse of
  /// OuterTransposing.
  InnerTransposing,
};

/// Returns "inner", "outer", "outer_transposing" or "inner_transposing".
StringRef stringifyQuantizeKind(QuantizeKind kind);

/// The dimensions besides the quantized axis: at most one of segments, and one
/// of columns.
struct QuantizeDims {
  std::optional<int64_t> segment, column;
};

/// Assigns the dimensions besides `axis`, given strides in elements (kDynamic
/// if unknown). A dimension that is contiguous on either side becomes the
/// columns, as a block processes many of these at a time. Returns std::nullopt
/// if there are more than two dimensions besides `axis`.
std::optional<QuantizeDims> assignQuantizeDims(int64_t axis,
                                               ArrayRef<int64_t> inputStrides,
                                               ArrayRef<int64_t> outputStrides);

/// The properties of a quantization along one axis that its tiles depend on.
/// kDynamic sizes stand for their nominal values.
struct QuantizeWork : KernelWorkBase<QuantizeWork> {
  /// The context in which tile attributes are created.
  MLIRContext *context = nullptr;
  /// Experts or jagged groups.
  int64_t segments = 1;
  /// Rows, the quantized axis: those of each segment, or of all jagged segments
  /// together.
  int64_t rows = 1;
  int64_t columns = 1;
  bool jagged = false;
  /// Whether scales are powers of two.
  bool powerOfTwo = false;
  /// Bytes of an input element. Output elements have one byte.
  int64_t inputBytes = 2;
  /// Strides of rows and columns, in elements.
  int64_t inputRowStride = 1, inputColumnStride = 1;
  /// Stride of segments in elements; 0 if they are no dimension of the input.
  int64_t inputSegmentStride = 0;
  /// The input's dimension of segments, if there is one.
  std::optional<int64_t> segmentDim;
  /// The quantized type; null if nothing depends on it.
  Type fp8Type;
  int64_t outputRowStride = 1, outputColumnStride = 1;
  /// Every jagged segment begins at a multiple of this in the output.
  int64_t outputPadding = 1;
  /// Bytes that a row operation reads per row to compute the input. Set only if
  /// the quantize kernel may be fused with that operation, as only
  /// quantizations read its result.
  std::optional<int64_t> sourceBytes;
  /// Whether only scales are computed. Tiles are ranked as if there were an
  /// output with the layout of the input.
  bool scalesOnly = false;
};

/// Returns the kind that the layouts of a quantization need.
QuantizeKind getQuantizeKind(const QuantizeWork &work);

/// A tile, its predicted cost, and the terms of that cost.
struct QuantizeTileCost {
  TileAttrInterface tile;
  /// A launch, the combination of the two times below, and further costs of the
  /// kernel family.
  Cost cost;
  /// Picoseconds to move all sectors at copy bandwidth.
  int64_t trafficTime;
  /// Picoseconds that all waves of blocks take if bandwidth is no limit, mostly
  /// memory latency.
  int64_t latencyTime;
  /// The number of blocks' worth of work, and how many of these are resident on
  /// the chip at once.
  int64_t workTiles, residentWorkTiles;
  /// Whether the second read of the input hits in L2.
  bool rereadsFromCache;

  int64_t getWaves() const {
    return llvm::divideCeil(workTiles, residentWorkTiles);
  }
};

/// Returns the legal tiles of a quantization on a GPU, smaller ones first.
SmallVector<QuantizeTileCost> rankQuantizeTiles(const QuantizeWork &work,
                                                const TargetInfo &target);

/// Returns the mean length of slices: the rows, divided by the number of groups
/// of a jagged tensor. Returns kDynamic if the length is only known at run
/// time.
int64_t getMeanLength(const QuantizeWork &work);

/// Returns the kernels that the host chooses from at run time. Kernels with
/// requirements on sizes or addresses come before general ones.
KernelChoiceAttr chooseQuantizeKernels(const QuantizeWork &work,
                                       const TargetInfo &target);

/// Appends general kernels to `choice` if it does not cover all cases.
KernelChoiceAttr completeQuantizeKernels(KernelChoiceAttr choice,
                                         const QuantizeWork &work,
                                         const TargetInfo &target);

/// Whether a range holds on the target's card. True if that depends on unknown
/// sizes.
bool mayBeInRange(RangeAttr range, const QuantizeWork &work,
                  const TargetInfo &target);

/// Returns the kernels of axis number `index` in an operation's choice. A null
/// choice gives null.
KernelChoiceAttr getAxisChoice(KernelChoiceAttr choice, unsigned index);

/// Returns the tile of least predicted time, the smallest one in case of ties.
const QuantizeTileCost &chooseQuantizeTile(ArrayRef<QuantizeTileCost> tiles);

/// A kernel that quantizes a tensor along both axes at once, columns and whole
/// rows.
struct BothAxesAlternative {
  QuantizeTileCost tile;
  /// The groups for which this kernel is worthwhile on every card of the
  /// target; null for all groups.
  RangeAttr range;
  /// Whether this kernel is predicted to take clearly less time than one kernel
  /// per axis, at least for some groups.
  bool isWorthwhile = false;
};

/// Returns the both-axes kernels that support the layouts, in the order in
/// which the host tries them. `works` are those of the operation.
SmallVector<BothAxesAlternative>
getBothAxesAlternatives(ArrayRef<QuantizeWork> works, const TargetInfo &target);

/// Returns the both-axes alternative with `tile`; std::nullopt if that tile
/// does not support the works.
std::optional<BothAxesAlternative>
findBothAxesTile(TileAttrInterface tile, ArrayRef<QuantizeWork> works,
                 const TargetInfo &target);

/// Returns a choice of one kernel per axis, as the last alternative.
AlternativeAttr choosePerAxisKernels(ArrayRef<QuantizeWork> works,
                                     const TargetInfo &target);

/// Returns worthwhile both-axes tiles, followed by one kernel per axis.
KernelChoiceAttr chooseBothAxesKernels(ArrayRef<QuantizeWork> works,
                                       const TargetInfo &target);

/// Returns the summed cost of the best kernel for each quantization.
Cost estimateApart(ArrayRef<QuantizeWork> works, const TargetInfo &target);

/// Returns the both-axes tile that runs on the target's card: the one that `op`
/// names, or the best one if it names none. Returns std::nullopt if kernels for
/// single axes run instead.
std::optional<QuantizeTileCost> chooseBothAxesTile(Operation *op,
                                                   ArrayRef<QuantizeWork> works,
                                                   const TargetInfo &target);

/// Whether a both-axes tile runs on any card of the target.
bool hasBothAxesTile(Operation *op, ArrayRef<QuantizeWork> works,
                     const TargetInfo &target);

/// Returns one work per axis that `op` quantizes along; on a GPU each is a
/// kernel. Tensors have the assumed layouts, others those of their types. Empty
/// if `op` is no quantization, or has no kernel. A cast by given scales counts
/// as the dynamic quantization that it may be fused into. Scales alone are a
/// quantization with `scalesOnly`.
SmallVector<QuantizeWork, 2>
getQuantizeWorks(Operation *op, ArrayRef<AssumedLayout> layouts = {});

/// Returns the least cost over the tiles of a quantization on a GPU, or the
/// cost of the tile that it names. An illegal tile makes the cost impossible.
/// Returns std::nullopt if `getQuantizeWorks` is empty.
std::optional<Cost> estimateQuantize(Operation *op,
                                     ArrayRef<AssumedLayout> layouts,
                                     const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_QUANTIZE_QUANTIZETILES_H
