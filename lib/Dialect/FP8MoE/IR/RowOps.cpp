//===- RowOps.cpp - Row operations between matmuls ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::detail;

//===----------------------------------------------------------------------===//
// Checks that all operations share
//===----------------------------------------------------------------------===//

/// Checks a matrix that the operation reads or writes, of the result's type.
static LogicalResult verifyMatrix(RowOpInterface op, const Twine &what,
                                  RankedTensorType type) {
  if (type.getRank() != 2)
    return op.emitOpError("expects ")
           << what << " of rank 2, found rank " << type.getRank();
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  if (type.getElementType() != element)
    return op.emitOpError("expects ")
           << what << " of the result's type " << element << ", found "
           << type.getElementType();
  if (failed(verifyPacked(op, what, type)))
    return failure();
  if (StridedLayout::get(type)->strides[1] == 1)
    return success();
  return op.emitOpError("expects ")
         << what << " to have contiguous rows, found " << type
         << "; use fp8moe.contiguous to copy it";
}

/// Checks the result, whose shape is `expected`.
static LogicalResult verifyResult(RowOpInterface op, ArrayRef<int64_t> expected,
                                  const Twine &why) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (failed(verifyMatrix(op, "the result", type)) ||
      failed(verifyShape(op, "the result", type, expected, why)))
    return failure();
  return verifyWritable(op, "the result", type);
}

//===----------------------------------------------------------------------===//
// GatherRowsOp
//===----------------------------------------------------------------------===//

LogicalResult GatherRowsOp::verify() {
  if (failed(verifyMatrix(*this, "the input", getInput().getType())) ||
      failed(
          verifyDenseRowMajor(*this, "the row numbers", getRows().getType())))
    return failure();
  return verifyResult(
      *this,
      {getRows().getType().getDimSize(0), getInput().getType().getDimSize(1)},
      "a row of the input for each row number");
}

void GatherRowsOp::getEqualSizes(SmallVectorImpl<EqualSizes> &) {}

LogicalResult GatherRowsOp::reifyResultSizes(SizeBuilder size,
                                             ResultSizes &sizes) {
  sizes.push_back({size.dim(getRows(), 0), size.dim(getInput(), 1)});
  return success();
}

//===----------------------------------------------------------------------===//
// SwiGLUOp, SwiGLUGradientOp
//===----------------------------------------------------------------------===//

/// Checks the matrix of both halves; how long they are must be known.
static LogicalResult verifyHalves(RowOpInterface op, RankedTensorType type) {
  if (failed(verifyMatrix(op, "the input", type)))
    return failure();
  int64_t columns = type.getDimSize(1);
  if (!ShapedType::isDynamic(columns) && columns % 2 == 0)
    return success();
  return op.emitOpError("expects an input with a known, even number of "
                        "columns, the gate and what it multiplies, found ")
         << type;
}

LogicalResult SwiGLUOp::verify() {
  RankedTensorType input = getInput().getType();
  if (failed(verifyHalves(*this, input)))
    return failure();
  if (getWeights() &&
      (failed(verifyShape(*this, "the weights", getWeights().getType(),
                          input.getDimSize(0), "one for each row")) ||
       failed(
           verifyDenseRowMajor(*this, "the weights", getWeights().getType()))))
    return failure();
  return verifyResult(*this, {input.getDimSize(0), input.getDimSize(1) / 2},
                      "half of the input's columns");
}

void SwiGLUOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  if (getWeights())
    pairs.push_back({getWeights(), 0, getInput(), 0});
}

LogicalResult SwiGLUOp::reifyResultSizes(SizeBuilder size, ResultSizes &sizes) {
  sizes.push_back(
      {size.dim(getInput(), 0), size.constant(getType().getDimSize(1))});
  return success();
}

LogicalResult SwiGLUGradientOp::verify() {
  RankedTensorType input = getInput().getType();
  RankedTensorType gradient = getGradient().getType();
  if (failed(verifyHalves(*this, input)) ||
      failed(verifyMatrix(*this, "the gradient", gradient)) ||
      failed(verifyShape(*this, "the gradient", gradient,
                         {input.getDimSize(0), input.getDimSize(1) / 2},
                         "half of the input's columns")))
    return failure();
  return verifyResult(*this, input.getShape(), "that of the input");
}

void SwiGLUGradientOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  pairs.push_back({getGradient(), 0, getInput(), 0});
}

LogicalResult SwiGLUGradientOp::reifyResultSizes(SizeBuilder size,
                                                 ResultSizes &sizes) {
  sizes.push_back(size.shape(getInput()));
  return success();
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

bool fp8moe::computesInput(TileAttrInterface tile) {
  auto rescaled = dyn_cast<RescaledBothAxesTileAttr>(tile);
  return rescaled && rescaled.getFused();
}

bool fp8moe::isComputedByReaders(RowOpInterface op) {
  auto computesIt = [](Operation *user) {
    auto tiled = dyn_cast<TiledOpInterface>(user);
    KernelChoiceAttr choice = tiled ? tiled.getTilesAttr() : KernelChoiceAttr();
    return choice &&
           llvm::any_of(choice.getEntries(), [](AlternativeAttr alternative) {
             auto tile = dyn_cast<TileAttrInterface>(alternative.getTile());
             return tile && computesInput(tile);
           });
  };
  Value result = op->getResult(0);
  return !result.use_empty() && llvm::all_of(result.getUsers(), computesIt);
}
