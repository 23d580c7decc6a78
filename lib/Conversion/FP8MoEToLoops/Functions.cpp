//===- Functions.cpp - Destination-passing functions ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A function's tensor results become memref arguments behind its own, because
// the caller of an artifact owns every output.
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Attributes of the new arguments: those of the arguments, then those of the
/// results.
ArrayAttr getArgumentAttributes(func::FuncOp func) {
  SmallVector<Attribute> attributes;
  auto append = [&](ArrayAttr dictionaries, size_t count) {
    if (dictionaries)
      return llvm::append_range(attributes, dictionaries);
    attributes.append(count, DictionaryAttr::get(func.getContext()));
  };
  append(func.getArgAttrsAttr(), func.getNumArguments());
  append(func.getResAttrsAttr(), func.getNumResults());
  return ArrayAttr::get(func.getContext(), attributes);
}

struct ConvertFunc : OpConversionPattern<func::FuncOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(func::FuncOp func, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    TypeConverter::SignatureConversion signature(func.getNumArguments());
    if (failed(getTypeConverter()->convertSignatureArgs(func.getArgumentTypes(),
                                                        signature)))
      return failure();
    SmallVector<Type> outputs;
    if (failed(
            getTypeConverter()->convertTypes(func.getResultTypes(), outputs)))
      return failure();
    signature.addInputs(outputs);

    ArrayAttr attributes = getArgumentAttributes(func);
    rewriter.applySignatureConversion(&func.getBody().front(), signature,
                                      getTypeConverter());
    rewriter.modifyOpInPlace(func, [&] {
      func.setType(rewriter.getFunctionType(signature.getConvertedTypes(), {}));
      func.removeResAttrsAttr();
      func.setArgAttrsAttr(attributes);
    });
    return success();
  }
};

/// Copies a returned tensor into its output argument.
void copyTensor(LoopBuilder &b, RankedTensorType type, Value source,
                Value output) {
  // A blocked layout is copied as what it is in memory, a run of bytes.
  auto memrefType = cast<MemRefType>(source.getType());
  if (!StridedLayout::get(type))
    type = RankedTensorType::get(memrefType.getShape(),
                                 memrefType.getElementType());
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < memrefType.getRank(); ++dim)
    sizes.push_back(b.createOrFold<memref::DimOp>(source, dim));
  copyElements(b, {type, source, sizes}, {type, output, sizes});
}

struct ConvertReturn : OpConversionPattern<func::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(func::ReturnOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    LoopBuilder b(op.getLoc(), rewriter);
    Block &entry = op->getParentRegion()->front();
    auto outputs = entry.getArguments().take_back(op.getNumOperands());
    for (auto [tensor, source, output] :
         llvm::zip_equal(op.getOperands(), adaptor.getOperands(), outputs))
      if (source != output)
        copyTensor(b, cast<RankedTensorType>(tensor.getType()), source, output);
    rewriter.replaceOpWithNewOp<func::ReturnOp>(op);
    return success();
  }
};

} // namespace

void mlir::fp8moe::populateFunctionPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<ConvertFunc, ConvertReturn>(converter, patterns.getContext());
}
