//===- Views.cpp - Views: no bytes move -----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// `values`, with attributes exactly where `shape` is static.
SmallVector<OpFoldResult> matchStatic(LoopBuilder &b, ArrayRef<Value> values,
                                      ArrayRef<int64_t> shape) {
  return llvm::map_to_vector(llvm::zip_equal(values, shape),
                             [&](auto pair) -> OpFoldResult {
                               auto [value, size] = pair;
                               if (ShapedType::isDynamic(size))
                                 return value;
                               return b.getIndexAttr(size);
                             });
}

/// The memory of `input` seen with other sizes and strides. Views are made by
/// reinterpret_cast, not by memref.transpose, because alias analyses only see
/// through operations with ViewLikeOpInterface.
Value createView(LoopBuilder &b, Value input, MemRefType type,
                 ArrayRef<Value> sizes, ArrayRef<Value> strides) {
  auto [knownStrides, offset] = type.getStridesAndOffset();
  return memref::ReinterpretCastOp::create(
      b, type, input, b.getIndexAttr(offset),
      matchStatic(b, sizes, type.getShape()),
      matchStatic(b, strides, knownStrides));
}

FailureOr<Value> convertTranspose(TransposeOp op, TransposeOp::Adaptor adaptor,
                                  LoopBuilder &b) {
  MemRefType type = getBufferType(op.getType());
  // Blocked layouts only have the identity, which is no permutation of bytes.
  if (llvm::is_sorted(op.getPermutation()))
    return b.createOrFold<memref::CastOp>(type, adaptor.getInput());
  auto metadata =
      memref::ExtractStridedMetadataOp::create(b, adaptor.getInput());
  SmallVector<Value> sizes, strides;
  for (int64_t dim : op.getPermutation()) {
    sizes.push_back(metadata.getSizes()[dim]);
    strides.push_back(metadata.getStrides()[dim]);
  }
  return createView(b, adaptor.getInput(), type, sizes, strides);
}

/// The strides of a reshaped view whose dimensions are not dense: each run of
/// result dimensions divides the memory of its run of input dimensions.
SmallVector<Value> getViewStrides(LoopBuilder &b, ReshapeOp op, Value input,
                                  ArrayRef<Value> sizes) {
  auto metadata = memref::ExtractStridedMetadataOp::create(b, input);
  ArrayRef<int64_t> inputShape = op.getInput().getType().getShape();
  SmallVector<Value> strides(sizes.size());
  SmallVector<ReshapeRun> runs =
      *matchReshape(inputShape, op.getType().getShape());
  for (const ReshapeRun &run : runs) {
    Value stride = b.index(1);
    // Dimensions of one element may have any stride; the others of a run are
    // adjacent in memory, the last one innermost.
    for (int64_t i = run.inputBegin; i < run.inputEnd; ++i)
      if (inputShape[i] != 1)
        stride = metadata.getStrides()[i];
    for (int64_t j = run.resultEnd - 1; j >= run.resultBegin; --j) {
      strides[j] = stride;
      stride = b.mul(stride, sizes[j]);
    }
  }
  return strides;
}

FailureOr<Value> convertReshape(ReshapeOp op, ReshapeOp::Adaptor adaptor,
                                LoopBuilder &b) {
  Value input = adaptor.getInput();
  auto getDim = [&](TypedValue<RankedTensorType>, int64_t dim) {
    return OpFoldResult(b.createOrFold<memref::DimOp>(input, dim));
  };
  ResultSizes results;
  if (failed(op.reifyResultSizes({b, op.getLoc(), getDim}, results)))
    return failure();
  SmallVector<Value> sizes = llvm::map_to_vector(
      results[0], [&](OpFoldResult size) { return b.index(size); });

  MemRefType type = getBufferType(op.getType());
  StridedLayout layout = *StridedLayout::get(op.getType());
  SmallVector<Value> strides = layout.dense
                                   ? getStrides(b, layout, sizes)
                                   : getViewStrides(b, op, input, sizes);
  return createView(b, input, type, sizes, strides);
}

FailureOr<Value> convertTensorCast(tensor::CastOp op,
                                   tensor::CastOp::Adaptor adaptor,
                                   LoopBuilder &b) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  auto source = dyn_cast<MemRefType>(adaptor.getSource().getType());
  if (!type || !source ||
      !memref::CastOp::areCastCompatible(source, getBufferType(type)))
    return op.emitOpError("changes the layout of a tensor (")
           << op.getSource().getType() << " to " << op.getType()
           << "); use fp8moe.relayout to move the bytes";
  return b.createOrFold<memref::CastOp>(getBufferType(type),
                                        adaptor.getSource());
}

FailureOr<Value> convertTensorDim(tensor::DimOp op,
                                  tensor::DimOp::Adaptor adaptor,
                                  LoopBuilder &b) {
  auto type = dyn_cast<RankedTensorType>(op.getSource().getType());
  if (!type || !StridedLayout::get(type))
    return op.emitOpError("cannot read a dimension of ")
           << op.getSource().getType()
           << ", whose memory does not tell it; read it from the tensor that "
              "it was made from";
  return Value(
      memref::DimOp::create(b, adaptor.getSource(), adaptor.getIndex()));
}

FailureOr<Value> convertTensorExtract(tensor::ExtractOp op,
                                      tensor::ExtractOp::Adaptor adaptor,
                                      LoopBuilder &b) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  if (!StridedLayout::get(type))
    return op.emitOpError("cannot read an element of ")
           << type << ", which lies in tiles; fp8moe.relayout it first";
  return Value(
      memref::LoadOp::create(b, adaptor.getTensor(), adaptor.getIndices()));
}

/// One of two whole tensors, which canonicalization makes of scf.if.
FailureOr<Value> convertSelect(arith::SelectOp op,
                               arith::SelectOp::Adaptor adaptor,
                               LoopBuilder &b) {
  if (!op.getCondition().getType().isInteger(1))
    return failure();
  return Value(arith::SelectOp::create(b, adaptor.getCondition(),
                                       adaptor.getTrueValue(),
                                       adaptor.getFalseValue()));
}

/// Replaces operations of one kind by what a function creates.
template <typename OpTy> struct ConvertByFunction : OpConversionPattern<OpTy> {
  using OpAdaptor = typename OpTy::Adaptor;
  using Conversion = FailureOr<Value> (*)(OpTy, OpAdaptor, LoopBuilder &);
  ConvertByFunction(const TypeConverter &converter, MLIRContext *context,
                    Conversion convert)
      : OpConversionPattern<OpTy>(converter, context), convert(convert) {}

  LogicalResult
  matchAndRewrite(OpTy op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    LoopBuilder b(op.getLoc(), rewriter);
    FailureOr<Value> converted = convert(op, adaptor, b);
    if (succeeded(converted))
      rewriter.replaceOp(op, *converted);
    return success(succeeded(converted));
  }

  Conversion convert;
};

/// Adds a pattern for each function.
template <typename... OpTys>
void addConversions(const TypeConverter &converter, RewritePatternSet &patterns,
                    FailureOr<Value> (*...convert)(OpTys,
                                                   typename OpTys::Adaptor,
                                                   LoopBuilder &)) {
  (patterns.add<ConvertByFunction<OpTys>>(converter, patterns.getContext(),
                                          convert),
   ...);
}

} // namespace

void mlir::fp8moe::populateViewPatterns(const TypeConverter &converter,
                                        RewritePatternSet &patterns) {
  addConversions(converter, patterns, convertTranspose, convertReshape,
                 convertTensorCast, convertTensorDim, convertTensorExtract,
                 convertSelect);
}
