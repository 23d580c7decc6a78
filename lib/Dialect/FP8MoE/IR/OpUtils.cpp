//===- OpUtils.cpp - Checks and sizes shared by the operations ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::detail;

std::string fp8moe::detail::formatSize(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}

std::string fp8moe::detail::formatShape(ArrayRef<int64_t> shape) {
  return '[' + llvm::join(llvm::map_range(shape, formatSize), ", ") + ']';
}

//===----------------------------------------------------------------------===//
// Verifier parts
//===----------------------------------------------------------------------===//

LogicalResult fp8moe::detail::verifyAxis(Operation *op, int64_t axis,
                                         RankedTensorType type) {
  if (axis >= 0 && axis < type.getRank())
    return success();
  if (type.getRank() == 0)
    return op->emitOpError("needs an input with dimensions, found ") << type;
  return op->emitOpError("expects an axis from 0 to ")
         << type.getRank() - 1 << " for an input of type " << type << ", found "
         << axis;
}

LogicalResult fp8moe::detail::verifyAxes(Operation *op, ArrayRef<int64_t> axes,
                                         RankedTensorType input) {
  if (axes.empty() || axes.size() > 2 ||
      (axes.size() == 2 && axes[0] == axes[1]))
    return op->emitOpError("expects one axis or two different ones, found [")
           << axes << "]";
  for (int64_t axis : axes)
    if (failed(verifyAxis(op, axis, input)))
      return failure();
  if (op->getNumResults() != 2 * axes.size())
    return op->emitOpError("expects ")
           << 2 * axes.size() << " results, data and scales for each of "
           << axes.size() << (axes.size() == 1 ? " axis" : " axes")
           << ", found " << op->getNumResults();
  return success();
}

LogicalResult fp8moe::detail::verifyShape(Operation *op, const Twine &what,
                                          RankedTensorType type,
                                          ArrayRef<int64_t> expected,
                                          const Twine &why) {
  if (type.getShape() == expected)
    return success();
  return op->emitOpError("expects ")
         << what << " to have shape " << formatShape(expected) << " (" << why
         << "), found " << formatShape(type.getShape());
}

LogicalResult fp8moe::detail::verifyResultType(Operation *op,
                                               RankedTensorType expected,
                                               const Twine &what) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (haveSameLayout(type, expected))
    return success();
  return op->emitOpError("expects ")
         << what << " to have type " << expected << ", found " << type;
}

LogicalResult fp8moe::detail::verifyStrided(Operation *op, const Twine &what,
                                            RankedTensorType type) {
  if (!type.getEncoding() || isa<StridedEncodingAttr>(type.getEncoding()))
    return success();
  return op->emitOpError("expects ")
         << what << " to have a strided layout or none, found "
         << type.getEncoding();
}

LogicalResult fp8moe::detail::verifyWritable(Operation *op, const Twine &what,
                                             RankedTensorType type) {
  if (failed(verifyStrided(op, what, type)))
    return failure();
  if (!type.getEncoding())
    return success();
  StridedLayout layout = *StridedLayout::get(type);
  if (layout.dense || !llvm::is_contained(layout.strides, ShapedType::kDynamic))
    return success();
  return op->emitOpError("cannot choose the unknown strides of ")
         << what << " of type " << type
         << "; give all strides, or leave them out for dense ones";
}

LogicalResult fp8moe::detail::verifyPacked(Operation *op, const Twine &what,
                                           RankedTensorType type) {
  if (failed(verifyStrided(op, what, type)))
    return failure();
  if (!getGroupPadding(type))
    return success();
  return op->emitOpError("expects ")
         << what << " to have packed groups, found " << type.getEncoding()
         << "; use fp8moe.relayout with 'groups' to pack them first";
}

LogicalResult fp8moe::detail::verifyElements(Operation *op, const Twine &what,
                                             RankedTensorType type,
                                             RankedTensorType input) {
  if (failed(
          verifyShape(op, what, type, input.getShape(), "that of the input")) ||
      failed(verifyPacked(op, what, type)))
    return failure();
  return verifyWritable(op, what, type);
}

LogicalResult fp8moe::detail::verifyDenseRowMajor(Operation *op,
                                                  const Twine &what,
                                                  RankedTensorType type) {
  if (!type.getEncoding())
    return success();
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  if (layout && layout->isDenseRowMajor(type.getShape()))
    return success();
  return op->emitOpError("expects ")
         << what << " to be dense row-major, found " << type.getEncoding();
}

LogicalResult
fp8moe::detail::verifyOffsets(Operation *op,
                              TypedValue<RankedTensorType> offsets) {
  if (!offsets)
    return success();
  if (offsets.getType().getDimSize(0) == 0)
    return op->emitOpError("expects the offsets of at least one group, found ")
           << offsets.getType();
  return verifyDenseRowMajor(op, "the group offsets", offsets.getType());
}

LogicalResult fp8moe::detail::verifySlices(Operation *op,
                                           RankedTensorType input,
                                           TypedValue<RankedTensorType> offsets,
                                           int64_t axis) {
  if (failed(verifyAxis(op, axis, input)) ||
      failed(verifyPacked(op, "the input", input)) ||
      failed(verifyOffsets(op, offsets)))
    return failure();
  if (offsets && input.getRank() != 2)
    return op->emitOpError("expects an input of rank 2 when groups are given, "
                           "found rank ")
           << input.getRank();
  return success();
}
