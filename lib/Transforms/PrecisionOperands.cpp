//===- PrecisionOperands.cpp - Quantization of matmul operands ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrecisionOperands.h"

using namespace mlir;
using namespace mlir::fp8moe;

MatmulOperand fp8moe::getMatmulOperand(MatmulOpInterface op, bool isFirst,
                                       PrecisionRecipe recipe) {
  TypedValue<RankedTensorType> operand = isFirst ? op.getA() : op.getB();
  MatmulOperand result;
  result.recipe = recipe;
  result.view = skipPermutations(operand);
  int64_t rank = operand.getType().getRank();
  // Scales have the experts first, whatever the order of the rest.
  if (rank == 3 && result.view.permutation[0] != 0)
    result.view = {operand, identityPermutation(rank)};
  int64_t contracted =
      isFirst ? op.getContractedDimA() : op.getContractedDimB();
  result.axis = result.view.permutation[contracted];
  if (!op.isMGrouped())
    result.offsets = op.getOffsets();
  return result;
}

/// Returns the type of block scales: the other dimensions, then the blocks
/// (X1), with the layout of grouped scales if there are groups (X7).
static RankedTensorType getBlockScaleType(ArrayRef<int64_t> shape, int64_t axis,
                                          Value offsets, MLIRContext *context) {
  int64_t extent = shape[axis];
  Attribute encoding;
  if (offsets) {
    int64_t groups = cast<RankedTensorType>(offsets.getType()).getDimSize(0);
    extent = paddedExtent(extent, groups, kMXGroupRows);
    int64_t blocks = kMXGroupRows / kMXBlock;
    encoding = ScaleBlockedEncodingAttr::get(
        context, kMXGroupRows, blocks,
        GroupPaddingAttr::get(context, /*dim=*/1, blocks));
  }
  SmallVector<int64_t> scaleShape = dropDim(shape, axis);
  scaleShape.push_back(ceilDivSizes(extent, kMXBlock));
  return RankedTensorType::get(scaleShape, Float8E8M0FNUType::get(context),
                               encoding);
}

/// Returns the type of slice scales, per group if there are groups.
static RankedTensorType getSliceScaleType(ArrayRef<int64_t> shape, int64_t axis,
                                          Value offsets, MLIRContext *context) {
  SmallVector<int64_t> scaleShape = dropDim(shape, axis);
  if (offsets)
    scaleShape.insert(scaleShape.begin(),
                      cast<RankedTensorType>(offsets.getType()).getDimSize(0));
  return RankedTensorType::get(scaleShape, Float32Type::get(context));
}

Operation *fp8moe::createQuantization(OpBuilder &builder, Location loc,
                                      ArrayRef<const MatmulOperand *> operands,
                                      Value root, Value offsets,
                                      Fp8Flavour flavour) {
  const MatmulOperand &first = *operands.front();
  bool isTransposed = first.isTransposed();
  if (isTransposed)
    root = TransposeOp::create(builder, loc, root, ArrayRef<int64_t>{1, 0});
  ArrayRef<int64_t> shape = cast<RankedTensorType>(root.getType()).getShape();
  MLIRContext *context = builder.getContext();
  Type fp8 = getBuiltinFp8Type(context, Fp8Format::E4M3, flavour);
  SmallVector<Type, 2> data, scales;
  SmallVector<int64_t, 2> axes;
  for (const MatmulOperand *operand : operands) {
    int64_t axis = isTransposed ? 1 - operand->axis : operand->axis;
    Value groups = operand->offsets ? offsets : Value();
    SmallVector<int64_t> order =
        dropDim(identityPermutation(shape.size()), axis);
    order.push_back(axis);
    axes.push_back(axis);
    data.push_back(StridedLayout::getDense(shape, order).getType(shape, fp8));
    scales.push_back(operand->hasBlocks()
                         ? getBlockScaleType(shape, axis, groups, context)
                         : getSliceScaleType(shape, axis, groups, context));
  }
  if (first.hasBlocks())
    return MXQuantizeOp::create(
        builder, loc, data, scales, root,
        cast_or_null<TypedValue<RankedTensorType>>(offsets), axes,
        MXMode::RCeil, /*square=*/false);
  return createDynamicQuantize(builder, loc, data, scales, root, offsets, axes,
                               ScaleRounding::Pow2);
}
