//===- MXOps.cpp - MX quantizations and back ------------------------------===//
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
// Data and scales
//===----------------------------------------------------------------------===//

static LogicalResult verifyBlocks(Operation *op, RankedTensorType input,
                                  TypedValue<RankedTensorType> offsets,
                                  int64_t axis) {
  if (failed(verifySlices(op, input, offsets, axis)))
    return failure();
  if (input.getRank() < 2 || input.getRank() > 3)
    return op->emitOpError("expects an input of rank 2 or 3, found rank ")
           << input.getRank();
  return success();
}

/// The advice for scales that are padded for groups where the operation has
/// none, or are not padded where it has groups.
static StringRef explainGroups(Operation *op, bool isPadded) {
  auto matmul = dyn_cast<MatmulOpInterface>(op);
  if (matmul && matmul.isDense())
    return "use #fp8moe.scale_blocked<128x4>, or fp8moe.grouped_matmul";
  // Its groups cannot go.
  if (matmul && !isPadded)
    return "use #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>";
  return isPadded ? "add 'groups(%offsets : tensor<Exi32>)'"
                  : "remove 'groups(...)' or pad the scales' layout";
}

LogicalResult fp8moe::detail::verifyBlockScales(
    Operation *op, const Twine &what, RankedTensorType scales,
    ArrayRef<int64_t> elements, TypedValue<RankedTensorType> offsets,
    int64_t axis) {
  auto blocked =
      dyn_cast_or_null<ScaleBlockedEncodingAttr>(scales.getEncoding());
  if (!blocked && failed(verifyDenseRowMajor(op, what, scales)))
    return failure();
  GroupPaddingAttr padding = blocked ? blocked.getGroups() : GroupPaddingAttr();
  if (static_cast<bool>(padding) != static_cast<bool>(offsets))
    return op->emitOpError("expects group offsets exactly when the scales have "
                           "a blocked layout with padded groups; ")
           << explainGroups(op, static_cast<bool>(padding));
  if (padding && padding.getDim() != 1 - axis)
    return op->emitOpError("has blocks along ")
           << axis << " and expects groups of scales along dimension "
           << 1 - axis << ", found " << blocked;

  SmallVector<int64_t> shape(elements);
  if (padding)
    shape[0] =
        paddedExtent(shape[0], offsets.getType().getDimSize(0), kMXGroupRows);
  int64_t blocks = ceilDivSizes(shape[axis], kMXBlock);
  shape = dropDim(shape, axis);
  shape.push_back(blocks);
  return verifyShape(op, what, scales, shape,
                     "the input's other dimensions, then its blocks of 32");
}

SmallVector<OpFoldResult> fp8moe::detail::blockScaleSizes(
    SizeBuilder &size, SmallVector<OpFoldResult> shape,
    TypedValue<RankedTensorType> offsets, int64_t axis) {
  if (offsets)
    shape[0] = size.paddedExtent(shape[0], size.dim(offsets, 0), kMXGroupRows);
  OpFoldResult blocks = size.ceilDiv(shape[axis], kMXBlock);
  shape.erase(shape.begin() + axis);
  shape.push_back(blocks);
  return shape;
}

//===----------------------------------------------------------------------===//
// MXQuantizeOp
//===----------------------------------------------------------------------===//

/// Checks the axes, and what they are together with groups and square blocks.
static LogicalResult verifyBlockAxes(MXQuantizeOp op) {
  RankedTensorType input = op.getInput().getType();
  ArrayRef<int64_t> axes = op.getAxes();
  if (failed(verifyAxes(op, axes, input)))
    return failure();
  for (int64_t axis : axes)
    if (failed(verifyBlocks(op, input, op.getOffsets(), axis)))
      return failure();
  bool isMatrix = axes.size() == 2 || op.getSquare();
  if (isMatrix && input.getRank() == 3 && llvm::is_contained(axes, 0))
    return op.emitOpError("expects axes 1 and 2 of an input of rank 3, each of "
                          "whose first dimension is a matrix, found [")
           << axes << "]; give axis 0 an operation of its own"
           << (op.getSquare() ? ", without 'square'" : "");
  if (op.getSquare() && op.getOffsets())
    return op.emitOpError("expects no groups with 'square', whose blocks are "
                          "those of weights; remove 'square' or 'groups(...)'");
  return success();
}

LogicalResult MXQuantizeOp::verify() {
  if (failed(verifyBlockAxes(*this)))
    return failure();
  RankedTensorType input = getInput().getType();
  for (auto [i, axis] : llvm::enumerate(getAxes())) {
    if (failed(verifyElements(*this, "data #" + Twine(i), getData(i).getType(),
                              input)) ||
        failed(verifyBlockScales(*this, "scales #" + Twine(i),
                                 getBlockScales(i).getType(), input.getShape(),
                                 getOffsets(), axis)))
      return failure();
  }
  return success();
}

bool MXQuantizeOp::isReadOnce() {
  if (getAxes().size() != 2)
    return false;
  // One axis lies across what is contiguous: its threads have whole blocks of
  // both in registers.
  std::optional<StridedLayout> layout =
      StridedLayout::get(getInput().getType());
  if (!layout)
    return false;
  // Data along the rows of groups that lie along columns would begin anywhere.
  // Data along columns of f32 takes 640 threads (5 blocks of 128 lines of 4
  // bytes, with the one behind the tile), for each of which a multiprocessor of
  // NVIDIA's has 96 registers: too few for both. (AMD's would do.)
  for (auto [i, axis] : llvm::enumerate(getAxes())) {
    std::optional<StridedLayout> data =
        StridedLayout::get(getData(i).getType());
    if (getOffsets() && axis == 1 && !data->isContiguousAlong(1))
      return false;
    if (getOffsets() && axis == 0 && data->isContiguousAlong(0) &&
        getInput().getType().getElementType().isF32())
      return false;
  }
  return llvm::any_of(
      getAxes(), [&](int64_t axis) { return layout->isContiguousAlong(axis); });
}

//===----------------------------------------------------------------------===//
// MXDequantizeOp
//===----------------------------------------------------------------------===//

LogicalResult MXDequantizeOp::verify() {
  RankedTensorType input = getInput().getType();
  if (failed(verifyBlocks(*this, input, getOffsets(), getAxis())) ||
      failed(verifyElements(*this, "the result", getType(), input)))
    return failure();
  return verifyBlockScales(*this, "the scales", getScale().getType(),
                           input.getShape(), getOffsets(), getAxis());
}

SmallVector<OpFoldResult> MXDequantizeOp::getScaleSizes(SizeBuilder size) {
  return blockScaleSizes(size, size.shape(getInput()), getOffsets(), getAxis());
}
