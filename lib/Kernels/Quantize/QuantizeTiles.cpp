//===- QuantizeTiles.cpp - Tiles of quantize kernels ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Rows/RowWork.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

StringRef fp8moe::stringifyQuantizeKind(QuantizeKind kind) {
  switch (kind) {
  case QuantizeKind::Inner:
    return "inner";
  case QuantizeKind::Outer:
    return "outer";
  case QuantizeKind::OuterTransposing:
    return "outer_transposing";
  case QuantizeKind::InnerTransposing:
    return "inner_transposing";
  }
  llvm_unreachable("unknown kind");
}

std::optional<QuantizeDims>
fp8moe::assignQuantizeDims(int64_t axis, ArrayRef<int64_t> inputStrides,
                           ArrayRef<int64_t> outputStrides) {
  SmallVector<int64_t> kept;
  for (int64_t dim : llvm::seq<int64_t>(inputStrides.size()))
    if (dim != axis)
      kept.push_back(dim);
  if (kept.size() > 2)
    return std::nullopt;
  if (kept.empty())
    return QuantizeDims();
  if (kept.size() == 1)
    return QuantizeDims{std::nullopt, kept.front()};
  auto isContiguous = [&](int64_t dim) {
    return inputStrides[dim] == 1 || outputStrides[dim] == 1;
  };
  if (isContiguous(kept[0]) && !isContiguous(kept[1]))
    std::swap(kept[0], kept[1]);
  return QuantizeDims{kept[0], kept[1]};
}

QuantizeKind fp8moe::getQuantizeKind(const QuantizeWork &work) {
  bool fromRows =
      isAlongRows(work.inputRowStride, work.inputColumnStride, work.columns);
  bool toRows =
      isAlongRows(work.outputRowStride, work.outputColumnStride, work.columns);
  if (fromRows)
    return toRows ? QuantizeKind::Inner : QuantizeKind::InnerTransposing;
  return toRows ? QuantizeKind::OuterTransposing : QuantizeKind::Outer;
}

//===----------------------------------------------------------------------===//
// Parts that models share
//===----------------------------------------------------------------------===//

QuantizeSizes<int64_t> fp8moe::getKnownSizes(const QuantizeWork &work) {
  QuantizeSizes<int64_t> sizes{};
  sizes.segments = work.segments;
  sizes.reduction = work.rows;
  sizes.parallel = work.columns;
  sizes.inSegment = work.inputSegmentStride;
  sizes.inReduction = work.inputRowStride;
  sizes.inParallel = work.inputColumnStride;
  sizes.outReduction = work.outputRowStride;
  sizes.outParallel = work.outputColumnStride;
  return sizes;
}

bool fp8moe::isAlongRows(int64_t rowStride, int64_t columnStride,
                         int64_t columns) {
  return rowStride == 1 && (columnStride != 1 || columns == 1 || columns == 0);
}

/// Bytes of a vector store to an aligned output.
static constexpr int64_t kStoreBytes = 16;

bool fp8moe::hasUnalignedColumns(const QuantizeWork &work) {
  return work.outputRowStride == 1 && work.columns != 1 &&
         !ShapedType::isDynamic(work.outputColumnStride) &&
         work.outputColumnStride % kStoreBytes != 0;
}

bool fp8moe::hasChunksApart(const QuantizeWork &work) {
  if (!hasUnalignedColumns(work))
    return false;
  // Padded groups are as far from their input as the padding before them.
  if (work.jagged && work.outputPadding > 1)
    return true;
  return ShapedType::isDynamic(work.inputColumnStride) ||
         (work.inputColumnStride - work.outputColumnStride) %
                 (kStoreBytes / work.inputBytes) !=
             0;
}

int64_t fp8moe::estimateUnalignedStores(const QuantizeWork &work,
                                        double elementTime) {
  if (!hasUnalignedColumns(work))
    return 0;
  double elements = static_cast<double>(work.rows) * work.columns *
                    (work.jagged ? 1 : work.segments);
  return static_cast<int64_t>(std::min(elements * elementTime, 1e18));
}

int64_t fp8moe::countSectorBytes(int64_t bytes, int64_t contiguousBytes,
                                 const TargetInfo &target) {
  return llvm::SaturatingMultiply<uint64_t>(
      llvm::divideCeil(bytes, contiguousBytes),
      llvm::alignTo(contiguousBytes, target.sectorBytes));
}

int64_t fp8moe::overlapTimes(int64_t traffic, int64_t latency) {
  auto [shorter, longer] = std::minmax(traffic, latency);
  double ratio = shorter / std::max<double>(longer, 1);
  return static_cast<int64_t>(longer * std::sqrt(1 + ratio * ratio));
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

QuantizeWork fp8moe::withNominalSizes(QuantizeWork work) {
  work.columns =
      getModelledSize(work.columns, kNominalTokens, kMostModelledSize);
  work.segments = getModelledSize(work.segments, kNominalSegments,
                                  kMostModelledSlices / work.columns);
  work.rows =
      getModelledSize(work.rows, kNominalTokens,
                      kMostModelledElements / (work.segments * work.columns));
  return work;
}

SmallVector<QuantizeTileCost>
fp8moe::rankQuantizeTiles(const QuantizeWork &known,
                          const QuantizeWork &nominal, const TargetInfo &target,
                          bool areGeneral) {
  SmallVector<QuantizeTileCost> tiles;
  for (const AxisQuantizeFamily *family : getAxisQuantizeFamilies())
    if (!areGeneral || family->isGeneral())
      family->addTiles(known, nominal, target, tiles);
  return tiles;
}

SmallVector<QuantizeTileCost>
fp8moe::rankQuantizeTiles(const QuantizeWork &work, const TargetInfo &target) {
  return rankQuantizeTiles(work, withNominalSizes(work), target);
}

int64_t fp8moe::getMeanLength(const QuantizeWork &work) {
  if (!work.jagged || ShapedType::isDynamic(work.rows))
    return work.rows;
  if (ShapedType::isDynamic(work.segments))
    return ShapedType::kDynamic;
  return computeMeanLength(work.jagged, work.rows,
                           std::max<int64_t>(work.segments, 1));
}

const QuantizeTileCost &
fp8moe::chooseQuantizeTile(ArrayRef<QuantizeTileCost> tiles) {
  return *llvm::min_element(
      tiles, [](const auto &a, const auto &b) { return a.cost < b.cost; });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static std::optional<QuantizeWork>
getAxisWork(Value input, Value quantized, Value offsets, int64_t axis,
            ArrayRef<AssumedLayout> layouts) {
  std::optional<StridedLayout> from = getAssumedLayout(input, layouts);
  std::optional<StridedLayout> to = getAssumedLayout(quantized, layouts);
  if (!from || !to)
    return std::nullopt;
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(axis, from->strides, to->strides);
  if (!dims)
    return std::nullopt;
  auto type = cast<RankedTensorType>(input.getType());
  QuantizeTensors<int64_t> tensors{
      /*zero=*/0,
      /*one=*/1,           type.getShape(), from->strides, to->strides,
      /*scaleStrides=*/{}, std::nullopt};
  if (offsets)
    tensors.groups = cast<RankedTensorType>(offsets.getType()).getDimSize(0);
  QuantizeSizes<int64_t> sizes = getQuantizeSizes(tensors, axis, *dims);
  QuantizeWork work;
  work.context = input.getContext();
  work.jagged = static_cast<bool>(offsets);
  work.segments = sizes.segments;
  work.rows = sizes.reduction;
  work.columns = sizes.parallel;
  work.inputBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  work.inputRowStride = sizes.inReduction;
  work.inputColumnStride = sizes.inParallel;
  work.inputSegmentStride = sizes.inSegment;
  work.outputRowStride = sizes.outReduction;
  work.outputColumnStride = sizes.outParallel;
  if (!work.jagged)
    work.segmentDim = dims->segment;
  if (auto source = input.getDefiningOp<RowOpInterface>();
      source &&
      llvm::all_of(input.getUsers(),
                   llvm::IsaPred<DynamicQuantizeOp, JaggedDynamicQuantizeOp>))
    if (RowWork ofRows = RowWork::get(source); ofRows.canFuse)
      work.sourceBytes = ofRows.readBytes;
  auto quantizedType = cast<RankedTensorType>(quantized.getType());
  work.fp8Type = quantizedType.getElementType();
  if (GroupPaddingAttr padding = getGroupPadding(quantizedType))
    work.outputPadding = padding.getPad();
  return work;
}

SmallVector<QuantizeWork, 2>
fp8moe::getQuantizeWorks(Operation *op, ArrayRef<AssumedLayout> layouts) {
  auto slices = dyn_cast<SliceOpInterface>(op);
  if (!slices || slices.hasBlocks() || isa<DequantizeOp>(op))
    return {};
  Value input = slices.getInput(), offsets = slices.getOffsets();
  bool scalesOnly = slices.getDataResults().empty();
  SmallVector<QuantizeWork, 2> works;
  for (auto [index, axis] : llvm::enumerate(slices.getSliceAxes())) {
    Value data = scalesOnly ? input : slices.getDataResults()[index];
    // Only the first axis is jagged.
    std::optional<QuantizeWork> work =
        getAxisWork(input, data, index == 0 ? offsets : Value(), axis, layouts);
    if (!work)
      return {};
    work->scalesOnly = scalesOnly;
    // Groups of the input are padded, not those of an output.
    if (scalesOnly)
      work->outputPadding = 1;
    else
      work->powerOfTwo = slices.getScaleRounding() == ScaleRounding::Pow2;
    works.push_back(*work);
  }
  return works;
}
