//===- SizeBuilder.cpp - Arithmetic on sizes ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

OpFoldResult SizeBuilder::constant(int64_t value) {
  return builder.getIndexAttr(value);
}

/// max(size, 1): an empty dimension counts as 1 in the strides outside it, as
/// in computeStrides.
static OpFoldResult atLeastOne(OpBuilder &builder, Location loc,
                               OpFoldResult size) {
  OpFoldResult one = builder.getIndexAttr(1);
  if (std::optional<int64_t> known = getConstantIntValue(size))
    return *known < 1 ? one : size;
  return arith::MaxSIOp::create(
             builder, loc, getValueOrCreateConstantIndexOp(builder, loc, size),
             getValueOrCreateConstantIndexOp(builder, loc, one))
      .getResult();
}

/// Folds `fold(a, b)` when both are known and the result fits 64 bits, else
/// creates `Op`.
template <typename Op, typename Fold>
static OpFoldResult combine(OpBuilder &builder, Location loc, OpFoldResult a,
                            OpFoldResult b, Fold fold) {
  std::optional<int64_t> knownA = getConstantIntValue(a);
  std::optional<int64_t> knownB = getConstantIntValue(b);
  if (knownA && knownB)
    if (std::optional<int64_t> result = fold(*knownA, *knownB))
      return builder.getIndexAttr(*result);
  return Op::create(builder, loc,
                    getValueOrCreateConstantIndexOp(builder, loc, a),
                    getValueOrCreateConstantIndexOp(builder, loc, b))
      .getResult();
}

OpFoldResult SizeBuilder::dim(TypedValue<RankedTensorType> value, int64_t i) {
  RankedTensorType type = value.getType();
  return type.isDynamicDim(i) ? getDim(value, i) : constant(type.getDimSize(i));
}

SmallVector<OpFoldResult>
SizeBuilder::shape(TypedValue<RankedTensorType> value) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t i = 0, rank = value.getType().getRank(); i < rank; ++i)
    sizes.push_back(dim(value, i));
  return sizes;
}

OpFoldResult SizeBuilder::add(OpFoldResult a, OpFoldResult b) {
  return combine<arith::AddIOp>(builder, loc, a, b, llvm::checkedAdd<int64_t>);
}

OpFoldResult SizeBuilder::mul(OpFoldResult a, OpFoldResult b) {
  if (getConstantIntValue(b) == 1)
    return a;
  if (getConstantIntValue(a) == 1)
    return b;
  return combine<arith::MulIOp>(builder, loc, a, b, llvm::checkedMul<int64_t>);
}

OpFoldResult SizeBuilder::div(OpFoldResult a, int64_t divisor) {
  if (divisor == 1)
    return a;
  return combine<arith::DivSIOp>(builder, loc, a, constant(divisor),
                                 std::divides<int64_t>());
}

OpFoldResult SizeBuilder::rem(OpFoldResult a, int64_t divisor) {
  return combine<arith::RemSIOp>(builder, loc, a, constant(divisor),
                                 std::modulus<int64_t>());
}

OpFoldResult SizeBuilder::ceilDiv(OpFoldResult a, int64_t divisor) {
  return combine<arith::CeilDivSIOp>(
      builder, loc, a, constant(divisor),
      [](int64_t x, int64_t y) { return llvm::divideCeilSigned(x, y); });
}

OpFoldResult SizeBuilder::paddedExtent(OpFoldResult size, OpFoldResult groups,
                                       int64_t pad) {
  OpFoldResult most = add(size, mul(groups, constant(pad - 1)));
  return mul(ceilDiv(most, pad), constant(pad));
}

SmallVector<OpFoldResult>
SizeBuilder::denseStrides(RankedTensorType type, ArrayRef<OpFoldResult> sizes) {
  SmallVector<OpFoldResult> strides(sizes.size());
  StridedLayout layout = *StridedLayout::get(type);
  if (layout.order.empty())
    return strides;
  OpFoldResult stride = constant(1);
  for (int64_t dim : llvm::reverse(ArrayRef(layout.order).drop_front())) {
    strides[dim] = stride;
    stride = mul(stride, atLeastOne(builder, loc, sizes[dim]));
  }
  strides[layout.order.front()] = stride;
  return strides;
}

SmallVector<OpFoldResult>
SizeBuilder::bufferSizes(RankedTensorType type, ArrayRef<OpFoldResult> sizes) {
  auto blocked = dyn_cast_or_null<ScaleBlockedEncodingAttr>(type.getEncoding());
  if (!blocked)
    return SmallVector<OpFoldResult>(sizes);
  OpFoldResult bytes =
      mul(mul(ceilDiv(sizes[sizes.size() - 2], blocked.getRows()),
              ceilDiv(sizes.back(), blocked.getCols())),
          constant(blocked.getRows() * blocked.getCols()));
  for (OpFoldResult experts : sizes.drop_back(2))
    bytes = mul(bytes, experts);
  return {bytes};
}
