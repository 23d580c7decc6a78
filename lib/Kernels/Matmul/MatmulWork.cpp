//===- MatmulWork.cpp - Matmuls as models see them ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

/// Columns, rows of a group's result, or contraction that an unknown size
/// stands for, and rows of a group when the number of all rows is not known:
/// tiles that are small because groups might be lose more on large groups than
/// they win on small ones, which memory bounds.
static constexpr int64_t kNominalSize = 4096;
static constexpr int64_t kNominalGroupRows = 1024;

MatrixElement fp8moe::getMatrixElement(Type type) {
  if (!isFp8Type(type))
    return MatrixElement::BF16;
  return getFp8Format(type) == Fp8Format::E4M3 ? MatrixElement::E4M3
                                               : MatrixElement::E5M2;
}

bool fp8moe::isPromoted(MatmulOpInterface op) {
  return isFp8Type(op.getA().getType().getElementType()) &&
         op.getAccumulation() == Accumulation::Promoted && !hasBlockScales(op);
}

OperandDims OperandDims::get(MatmulOpInterface op, bool isFirst) {
  if (isFirst)
    return {op.getA().getType(), op.getContractedDimA(), 0};
  RankedTensorType type = op.getB().getType();
  return {type, op.getContractedDimB(), type.getRank() - 1};
}

bool fp8moe::mayBeMNMajor(MatmulOpInterface op, bool isFirst) {
  return !isFp8Type(op.getA().getType().getElementType()) &&
         !(isFirst && op.isMGrouped() && !op.isDense());
}

bool fp8moe::isMNMajor(MatmulOpInterface op, bool isFirst) {
  auto [type, contracted, kept] = OperandDims::get(op, isFirst);
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  return mayBeMNMajor(op, isFirst) && layout &&
         !layout->isContiguousAlong(contracted) &&
         type.getDimSize(contracted) != 1 && layout->isContiguousAlong(kept);
}

/// The stride of `dim`, where the layout gives strides of its own. Promised
/// multiples of a line are as good as one.
static int64_t getPitch(RankedTensorType type, int64_t dim) {
  constexpr int64_t kLine = 128;
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  if (!layout || layout->dense)
    return ShapedType::kDynamic;
  int64_t stride = layout->strides[dim];
  bool isWholeLines = layout->align > 0 && layout->align % kLine == 0;
  return ShapedType::isDynamic(stride) && isWholeLines ? kLine : stride;
}

MatmulWork fp8moe::getMatmulKind(MatmulOpInterface op) {
  MatmulWork work;
  work.groupedDim = op.getGroupedDim();
  work.a = getMatrixElement(op.getA().getType().getElementType());
  work.b = getMatrixElement(op.getB().getType().getElementType());
  work.dense = op.isDense();
  work.hasBlockScales = hasBlockScales(op);
  return work;
}

MatmulWork fp8moe::getMatmulWork(MatmulOpInterface op) {
  RankedTensorType a = op.getA().getType(), b = op.getB().getType();
  MatmulWork work = getMatmulKind(op);
  work.rows = a.getDimSize(0);
  work.columns = b.getShape().back();
  work.contraction = a.getDimSize(1);
  work.groups = op.isDense() ? 1 : op.getOffsets().getType().getDimSize(0);
  PrecisionAttr precision = op.getPrecisionAttr();
  work.contractsTokens =
      work.isMGrouped() && precision && precision.getUse() == MatmulUse::WGrad;
  work.elementBytes = getElementBytes(a.getElementType()).value_or(1);
  work.resultBytes = getElementBytes(op.getType().getElementType()).value_or(2);
  work.promoted = isPromoted(op);
  work.accumulates = static_cast<bool>(op.getAddend());
  work.mnMajorA = isMNMajor(op, /*isFirst=*/true);
  work.mnMajorB = isMNMajor(op, /*isFirst=*/false);
  int64_t last = b.getRank() - 1;
  work.pitchA = getPitch(a, work.mnMajorA ? op.getContractedDimA() : 0);
  work.pitchB = getPitch(b, work.mnMajorB ? op.getContractedDimB() : last);
  return work;
}

MatmulWork fp8moe::withNominalSizes(MatmulWork work) {
  auto assume = [](int64_t &size, int64_t nominal) {
    size = getModelledSize(size, nominal, kMostModelledSize);
  };
  assume(work.groups, kNominalSegments);
  int64_t tokens = std::max(kNominalTokens, kNominalGroupRows * work.groups);
  assume(work.getTokens(), tokens);
  assume(work.rows, kNominalSize);
  assume(work.columns, kNominalSize);
  assume(work.contraction, kNominalSize);
  return work;
}

RaggedRows RaggedRows::get(int64_t tileRows, int64_t groups) {
  // One group's last tile is as full as its rows say.
  if (groups <= 1)
    return {};
  // Each group adds something between nothing and a tile, all alike likely.
  double mean = groups / 2.0, deviation = std::sqrt(groups / 12.0);
  return {static_cast<int64_t>(tileRows * (mean - deviation)),
          static_cast<int64_t>(tileRows * (mean + deviation))};
}

//===----------------------------------------------------------------------===//
// Exchanged operands
//===----------------------------------------------------------------------===//

/// Whether the operation of this function that computes the scales rounds them
/// to powers of two (Q3).
static bool arePowersOfTwo(Value scales) {
  auto isViewOrCopy =
      llvm::IsaPred<TransposeOp, ReshapeOp, ContiguousOp, RelayoutOp>;
  Operation *op = skipOps(scales, isViewOrCopy).getDefiningOp();
  return op && llvm::TypeSwitch<Operation *, bool>(op)
                   .Case<ScaleOp, JaggedScaleOp, DynamicQuantizeOp,
                         JaggedDynamicQuantizeOp>([](auto quantize) {
                     return quantize.getRounding() == ScaleRounding::Pow2;
                   })
                   .Default(false);
}

StringRef fp8moe::explainNotExchangeable(MatmulOpInterface op) {
  if (op.isMGrouped() && !op.isDense())
    return "its groups are rows of the result, and no matmul has groups of "
           "columns";
  if (op.getTilesAttr())
    return "its tile was chosen for this order of the operands";
  // Scales of blocks belong to the elements, whatever the order (G9).
  if (!op.getScaleA() || hasBlockScales(op))
    return "";
  if (!op.getScaleB())
    return "only the first operand of a matmul may be the one with scales";
  if (!arePowersOfTwo(op.getScaleA()) || !arePowersOfTwo(op.getScaleB()))
    return "with exchanged operands the product would be rounded in another "
           "order, and its scales are not known to be powers of two; compute "
           "them in this function with 'rounding pow2'";
  return "";
}
