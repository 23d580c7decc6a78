//===- PrecisionOperands.cpp - What matmuls need of operands --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrecisionOperands.h"

using namespace mlir;
using namespace mlir::fp8moe;

SmallVector<int64_t> MatmulOperand::getInverse() const {
  SmallVector<int64_t> inverse(view.permutation.size());
  for (auto [dim, rootDim] : llvm::enumerate(view.permutation))
    inverse[rootDim] = dim;
  return inverse;
}

MatmulOperand fp8moe::getMatmulOperand(MatmulOpInterface op, bool isFirst) {
  TypedValue<RankedTensorType> operand = isFirst ? op.getA() : op.getB();
  MatmulOperand result;
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

QuantizedTypes QuantizedTypes::get(const MatmulOperand &operand,
                                   ArrayRef<int64_t> rootShape, Type fp8) {
  MLIRContext *context = fp8.getContext();
  SmallVector<int64_t> order, scaleShape;
  if (operand.offsets)
    scaleShape.push_back(
        cast<RankedTensorType>(operand.offsets.getType()).getDimSize(0));
  for (int64_t dim : llvm::seq<int64_t>(rootShape.size())) {
    if (dim == operand.axis)
      continue;
    order.push_back(dim);
    scaleShape.push_back(rootShape[dim]);
  }
  order.push_back(operand.axis);
  Attribute encoding;
  if (!llvm::is_sorted(order))
    encoding = StridedEncodingAttr::get(context, order);
  return {RankedTensorType::get(rootShape, fp8, encoding),
          RankedTensorType::get(scaleShape, Float32Type::get(context))};
}
