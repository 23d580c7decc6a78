//===- SizeBuilder.cpp - Arithmetic on sizes ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

#include <functional>

using namespace mlir;
using namespace mlir::fp8moe;

OpFoldResult SizeBuilder::constant(int64_t value) {
  return builder.getIndexAttr(value);
}

/// Returns `compute` of two sizes.
template <typename Compute>
static OpFoldResult computeSize(OpBuilder &builder, Location loc,
                                OpFoldResult a, OpFoldResult b,
                                Compute compute) {
  ImplicitLocOpBuilder inner(loc, builder);
  return compute(HostSize(inner, a), HostSize(inner, b)).getSize(inner);
}

static HostSize divideUp(const HostSize &a, const HostSize &b) {
  return ceilDiv(a, b);
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
  return computeSize(builder, loc, a, b, std::plus<HostSize>());
}

OpFoldResult SizeBuilder::mul(OpFoldResult a, OpFoldResult b) {
  return computeSize(builder, loc, a, b, std::multiplies<HostSize>());
}

OpFoldResult SizeBuilder::div(OpFoldResult a, int64_t divisor) {
  return computeSize(builder, loc, a, constant(divisor),
                     std::divides<HostSize>());
}

OpFoldResult SizeBuilder::rem(OpFoldResult a, int64_t divisor) {
  return computeSize(builder, loc, a, constant(divisor),
                     std::modulus<HostSize>());
}

OpFoldResult SizeBuilder::ceilDiv(OpFoldResult a, int64_t divisor) {
  return computeSize(builder, loc, a, constant(divisor), divideUp);
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
    // An empty dimension counts as 1, as in computeStrides.
    OpFoldResult size = computeSize(
        builder, loc, sizes[dim], constant(1),
        [](const HostSize &x, const HostSize &y) { return maxOf(x, y); });
    stride = mul(stride, size);
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
