//===- OpLowering.cpp - From tensor ops to loops --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Allocation
//===----------------------------------------------------------------------===//

/// The number of bytes of block scales with their padding.
static Value getBlockedBytes(LoopBuilder &b, ScaleBlockedEncodingAttr layout,
                             ArrayRef<Value> sizes) {
  Value bytes = b.mul(b.roundUp(sizes[sizes.size() - 2], layout.getRows()),
                      b.roundUp(sizes.back(), layout.getCols()));
  return sizes.size() == 3 ? b.mul(sizes[0], bytes) : bytes;
}

SmallVector<Value> mlir::fp8moe::getStrides(LoopBuilder &b,
                                            const StridedLayout &layout,
                                            ArrayRef<Value> sizes) {
  SmallVector<Value> strides(sizes.size());
  Value dense = b.index(1);
  for (int64_t dim : llvm::reverse(layout.order)) {
    const int64_t stride = layout.strides[dim];
    strides[dim] = ShapedType::isDynamic(stride) ? dense : b.index(stride);
    dense = b.mul(dense, sizes[dim]);
  }
  return strides;
}

/// The number of elements from the first to the last one.
static Value getSpan(LoopBuilder &b, const StridedLayout &layout,
                     ArrayRef<Value> sizes, ArrayRef<Value> strides) {
  if (sizes.empty())
    return b.index(1);
  // The outermost dimension holds everything.
  const int64_t outermost = layout.order.front();
  return b.mul(sizes[outermost], strides[outermost]);
}

/// The memory of a tensor with the given logical sizes.
static Value allocate(LoopBuilder &b, RankedTensorType type,
                      ArrayRef<Value> sizes) {
  auto allocate = [&](ValueRange extents) -> Value {
    return memref::AllocOp::create(b, getAsOpFoldResult(extents),
                                   type.getElementType());
  };
  if (auto blocked =
          dyn_cast_or_null<ScaleBlockedEncodingAttr>(type.getEncoding()))
    return allocate(getBlockedBytes(b, blocked, sizes));
  if (getBufferType(type).getLayout().isIdentity())
    return allocate(sizes);
  StridedLayout layout = *StridedLayout::get(type);
  SmallVector<Value> strides = getStrides(b, layout, sizes);
  Value flat = allocate(getSpan(b, layout, sizes, strides));
  return memref::ReinterpretCastOp::create(b, flat, b.getIndexAttr(0),
                                           getAsOpFoldResult(ValueRange(sizes)),
                                           getAsOpFoldResult(strides));
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

/// The output argument of the function that `result` is returned through, so
/// that it can be written in place; null when there is none, or when it
/// belongs to another value.
static Value findDestination(OpResult result) {
  for (OpOperand &use : result.getUses()) {
    auto returnOp = dyn_cast<func::ReturnOp>(use.getOwner());
    if (!returnOp || returnOp->getBlock() != result.getOwner()->getBlock())
      continue;
    // A value that is returned twice is written to the first argument.
    auto operands = returnOp.getOperands();
    const auto first = llvm::find(operands, Value(result)) - operands.begin();
    Block &entry = returnOp->getParentRegion()->front();
    if (&entry != returnOp->getBlock())
      return {};
    return entry.getArgument(entry.getNumArguments() - operands.size() + first);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// OpLowering
//===----------------------------------------------------------------------===//

FailureOr<Value> OpLowering::getSize(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return b.index(type.getDimSize(dim));
  if (StridedLayout::get(type))
    return b.createOrFold<memref::DimOp>(rewriter.getRemappedValue(tensor),
                                         dim);
  // A flat run of bytes does not tell how many rows it has; what computed it
  // does.
  auto producer = tensor.getDefiningOp<ResultSizesOpInterface>();
  if (!producer)
    return op->emitOpError("cannot know dimension ")
           << dim << " of the block scales of type " << type
           << ", because they come from outside; give them a static shape";
  ResultSizes sizes;
  bool known = true;
  auto getDim = [&](TypedValue<RankedTensorType> operand,
                    int64_t i) -> OpFoldResult {
    FailureOr<Value> size = getSize(operand, i);
    known &= succeeded(size);
    return known ? OpFoldResult(*size) : OpFoldResult(b.getIndexAttr(0));
  };
  if (failed(producer.reifyResultSizes({b, b.getLoc(), getDim}, sizes)) ||
      !known)
    return failure();
  return b.index(sizes[cast<OpResult>(tensor).getResultNumber()][dim]);
}

LogicalResult OpLowering::prepare() {
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || buffers.contains(operand))
      continue;
    TensorBuffer buffer{type, rewriter.getRemappedValue(operand), {}};
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      FailureOr<Value> size = getSize(operand, dim);
      if (failed(size))
        return failure();
      buffer.sizes.push_back(*size);
    }
    buffers.try_emplace(operand, std::move(buffer));
  }

  ResultSizes sizes;
  auto getDim = [&](TypedValue<RankedTensorType> operand,
                    int64_t dim) -> OpFoldResult {
    return getBuffer(operand).sizes[dim];
  };
  if (failed(op.reifyResultSizes({b, b.getLoc(), getDim}, sizes)))
    return failure();
  for (OpResult result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<Value> resultSizes =
        llvm::map_to_vector(sizes[result.getResultNumber()],
                            [&](OpFoldResult size) { return b.index(size); });
    Value memref = findDestination(result);
    if (!memref)
      memref = b.createOrFold<memref::CastOp>(getBufferType(type),
                                              allocate(b, type, resultSizes));
    buffers.try_emplace(result, TensorBuffer{type, memref, resultSizes});
  }
  return success();
}

SmallVector<Value> OpLowering::getResultMemrefs() const {
  return llvm::map_to_vector(
      op->getResults(), [&](Value result) { return getBuffer(result).memref; });
}
