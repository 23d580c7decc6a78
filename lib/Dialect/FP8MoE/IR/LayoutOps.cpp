//===- LayoutOps.cpp - Views and copies -----------------------------------===//
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

/// Checks that a view promises no more than what is known of its bytes.
template <typename ViewOp>
static LogicalResult verifyViewAlignment(ViewOp op, int64_t known) {
  int64_t promised = getBaseAlignment(op.getType());
  if (promised <= known)
    return success();
  return op.emitOpError("promises an alignment of ")
         << promised << " bytes, but only " << known
         << " follow from the input of type " << op.getInput().getType()
         << "; use fp8moe.relayout for an aligned copy";
}

//===----------------------------------------------------------------------===//
// TransposeOp
//===----------------------------------------------------------------------===//

/// The type of `input` seen through `permutation`; null for layouts that no
/// view can permute.
static RankedTensorType getTransposedType(RankedTensorType input,
                                          ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape = permute(input.getShape(), permutation);
  std::optional<StridedLayout> source = StridedLayout::get(input);
  if (!source)
    return llvm::is_sorted(permutation) ? input : RankedTensorType();
  StridedLayout layout = transposeLayout(*source, permutation);
  return layout.getType(shape, input.getElementType());
}

/// getTransposedType for any permutation, with an error where there is none.
template <typename EmitErrorFn>
static FailureOr<RankedTensorType>
inferTransposedType(RankedTensorType input, ArrayRef<int64_t> permutation,
                    EmitErrorFn emitError) {
  if (static_cast<int64_t>(permutation.size()) != input.getRank() ||
      !isPermutation(permutation))
    return emitError("expects a permutation of the dimensions of ", input,
                     ", found [", permutation, "]");
  if (RankedTensorType type = getTransposedType(input, permutation))
    return type;
  return emitError("cannot view ", input,
                   " with permuted dimensions; blocked layouts have a fixed "
                   "order, use fp8moe.relayout first");
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            TransposeOp::Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto emitError = [&](auto &&...parts) {
    return emitOptionalError(loc, parts...);
  };
  if (failed(requireOperands(adaptor, 1, loc)) ||
      failed(requireAttribute(adaptor.getProperties().permutation,
                              "permutation", loc)))
    return failure();
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return emitError("expects a ranked tensor");
  FailureOr<RankedTensorType> type =
      inferTransposedType(input, adaptor.getPermutation(), emitError);
  if (failed(type))
    return failure();
  types.push_back(*type);
  return success();
}

LogicalResult TransposeOp::verify() {
  auto emitError = [&](auto &&...parts) -> LogicalResult {
    return (emitOpError() << ... << parts);
  };
  FailureOr<RankedTensorType> type =
      inferTransposedType(getInput().getType(), getPermutation(), emitError);
  if (failed(type) || failed(verifyResultType(*this, *type, "the view")))
    return failure();
  return verifyViewAlignment(*this, getBaseAlignment(getInput().getType()));
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()) && getInput().getType() == getType())
    return getInput();
  auto producer = getInput().getDefiningOp<TransposeOp>();
  if (!producer)
    return {};
  // transpose(transpose(x, p), q) = transpose(x, p[q])
  SmallVector<int64_t> permutation =
      composePermutations(producer.getPermutation(), getPermutation());
  if (llvm::is_sorted(permutation) &&
      producer.getInput().getType() == getType())
    return producer.getInput();
  setPermutation(permutation);
  getInputMutable().assign(producer.getInput());
  return getResult();
}

LogicalResult TransposeOp::reifyResultSizes(SizeBuilder size,
                                            ResultSizes &sizes) {
  sizes.emplace_back(llvm::map_to_vector(getPermutation(), [&](int64_t dim) {
    return size.dim(getInput(), dim);
  }));
  return success();
}

//===----------------------------------------------------------------------===//
// ReshapeOp
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (input.getElementType() != result.getElementType())
    return emitOpError("keeps the element type, found ")
           << input.getElementType() << " and " << result.getElementType();
  if (failed(verifyPacked(*this, "the input", input)) ||
      failed(verifyPacked(*this, "the result", result)))
    return failure();
  if (!matchReshape(input.getShape(), result.getShape()))
    return emitOpError(
               "only merges or splits runs of dimensions (a split has at "
               "most one '?'), found ")
           << formatShape(input.getShape()) << " to "
           << formatShape(result.getShape());
  if (isAmbiguousReshape(input.getShape(), result.getShape()))
    return emitOpError("could merge or split in several ways, found ")
           << formatShape(input.getShape()) << " to "
           << formatShape(result.getShape())
           << "; give more static sizes, or reshape in steps with one '?' each";
  std::optional<StridedLayout> layout = reshapeLayout(
      *StridedLayout::get(input), input.getShape(), result.getShape());
  if (!layout)
    return emitOpError("would have to move bytes: no strides describe this "
                       "view of ")
           << input << "; use fp8moe.contiguous first";
  int64_t align = std::max(layout->align,
                           getElementBytes(input.getElementType()).value_or(1));
  if (!layout->isSameAs(*StridedLayout::get(result), result.getShape())) {
    // A smaller promise is legal too, and surely fits the pitches of the view.
    layout->align = 0;
    return emitOpError("expects the view to have type ")
           << layout->getType(result.getShape(), result.getElementType())
           << ", found " << result;
  }
  return verifyViewAlignment(*this, align);
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // The sizes that the way through the producer gives must be those of the
  // direct way.
  auto producer = getInput().getDefiningOp<ReshapeOp>();
  if (!producer || !hasUniqueReshape(getType().getShape()))
    return {};
  RankedTensorType source = producer.getInput().getType();
  if (source == getType())
    return producer.getInput();
  std::optional<StridedLayout> layout = reshapeLayout(
      *StridedLayout::get(source), source.getShape(), getType().getShape());
  if (!layout ||
      !layout->isSameAs(*StridedLayout::get(getType()), getType().getShape()))
    return {};
  getInputMutable().assign(producer.getInput());
  return getResult();
}

LogicalResult ReshapeOp::reifyResultSizes(SizeBuilder size,
                                          ResultSizes &sizes) {
  ArrayRef<int64_t> resultShape = getType().getShape();
  SmallVector<OpFoldResult> &result = sizes.emplace_back();
  SmallVector<ReshapeRun> runs =
      *matchReshape(getInput().getType().getShape(), resultShape);
  for (const ReshapeRun &run : runs) {
    OpFoldResult elements = size.constant(1);
    for (int64_t i = run.inputBegin; i < run.inputEnd; ++i)
      elements = size.mul(size.dim(getInput(), i), elements);
    // The unknown part of a split is what the known parts leave.
    int64_t known = 1;
    for (int64_t j = run.resultBegin; j < run.resultEnd; ++j)
      if (!ShapedType::isDynamic(resultShape[j]))
        known = multiplySizes(known, resultShape[j]);
    for (int64_t j = run.resultBegin; j < run.resultEnd; ++j)
      result.push_back(ShapedType::isDynamic(resultShape[j])
                           ? size.div(elements, std::max<int64_t>(known, 1))
                           : size.constant(resultShape[j]));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ContiguousOp
//===----------------------------------------------------------------------===//

LogicalResult ContiguousOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> loc,
                                             ContiguousOp::Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  if (failed(requireOperands(adaptor, 1, loc)))
    return failure();
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return emitOptionalError(loc, "expects a ranked tensor");
  types.push_back(dropLayout(input));
  return success();
}

LogicalResult ContiguousOp::verify() {
  if (failed(verifyPacked(*this, "the input", getInput().getType())))
    return failure();
  return verifyResultType(*this, dropLayout(getInput().getType()), "the copy");
}

OpFoldResult ContiguousOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput())
                                           : OpFoldResult();
}

/// One operation that moves bytes is enough for every pass that follows.
static LogicalResult contiguousToRelayout(ContiguousOp op,
                                          PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<RelayoutOp>(op, op.getType(), op.getInput(),
                                          /*offsets=*/Value());
  return success();
}

void ContiguousOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                               MLIRContext *) {
  patterns.add(contiguousToRelayout);
}

LogicalResult ContiguousOp::reifyResultSizes(SizeBuilder size,
                                             ResultSizes &sizes) {
  sizes.push_back(size.shape(getInput()));
  return success();
}

//===----------------------------------------------------------------------===//
// RelayoutOp
//===----------------------------------------------------------------------===//

/// Checks one padded dimension of a relayout: `packed` is the size on the side
/// that does not pad it, if there is one.
static LogicalResult verifyRelayoutDim(RelayoutOp op, int64_t dim,
                                       GroupPaddingAttr inputPad,
                                       GroupPaddingAttr resultPad) {
  int64_t input = op.getInput().getType().getDimSize(dim);
  int64_t result = op.getType().getDimSize(dim);
  int64_t groups =
      op.getOffsets() ? op.getOffsets().getType().getDimSize(0) : 0;
  if (inputPad && !resultPad) {
    // The packed size is not a function of the padded one; any size is a
    // claim that the padded extent must bear out.
    int64_t padded = paddedExtent(result, groups, inputPad.getPad());
    if (padded == input || ShapedType::isDynamic(result))
      return success();
    return op.emitOpError("expects dimension ")
           << dim << " of the input to be the padded extent of the result, "
           << formatSize(padded) << ", found " << formatSize(input);
  }
  int64_t expected = resultPad && !inputPad
                         ? paddedExtent(input, groups, resultPad.getPad())
                         : input;
  if (result == expected)
    return success();
  return op.emitOpError("expects dimension ")
         << dim << " of the result to be " << formatSize(expected) << ", found "
         << formatSize(result);
}

LogicalResult RelayoutOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (input.getElementType() != result.getElementType())
    return emitOpError("keeps the element type, found ")
           << input.getElementType() << " and " << result.getElementType()
           << "; use fp8moe.quantize or fp8moe.dequantize to convert";
  if (input.getRank() != result.getRank())
    return emitOpError("keeps the shape, found rank ")
           << input.getRank() << " and " << result.getRank()
           << "; use fp8moe.reshape first";
  if (StridedLayout::get(result) &&
      failed(verifyWritable(*this, "the result", result)))
    return failure();
  GroupPaddingAttr inputPad = fp8moe::getGroupPadding(input);
  GroupPaddingAttr resultPad = fp8moe::getGroupPadding(result);
  if (inputPad && resultPad && inputPad != resultPad)
    return emitOpError("cannot change one padding of groups into another (")
           << inputPad << " to " << resultPad
           << "); pack the groups in between";
  bool blocked =
      isa_and_nonnull<ScaleBlockedEncodingAttr>(input.getEncoding()) ||
      isa_and_nonnull<ScaleBlockedEncodingAttr>(result.getEncoding());
  if (blocked && inputPad != resultPad)
    return emitOpError("cannot pad or pack the groups of blocked scales; let "
                       "fp8moe.mx_quantize write them padded");
  bool needsOffsets = inputPad != resultPad;
  if (needsOffsets && !getOffsets())
    return emitOpError("needs the group offsets to pad or pack groups; add "
                       "'groups(%offsets : tensor<Exi32>)'");
  if (!needsOffsets && getOffsets())
    return emitOpError("has group offsets, but neither side alone has padded "
                       "groups; remove 'groups(...)'");
  if (failed(verifyOffsets(*this, getOffsets())))
    return failure();
  for (int64_t dim = 0; dim < input.getRank(); ++dim) {
    auto padOf = [&](GroupPaddingAttr pad) {
      return pad && pad.getDim() == dim ? pad : GroupPaddingAttr();
    };
    if (failed(
            verifyRelayoutDim(*this, dim, padOf(inputPad), padOf(resultPad))))
      return failure();
  }
  return success();
}

OpFoldResult RelayoutOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput())
                                           : OpFoldResult();
}

/// relayout(relayout(x)) -> relayout(x), where at most one of them pads or
/// packs groups. That one does not become two.
static LogicalResult composeRelayouts(RelayoutOp op,
                                      PatternRewriter &rewriter) {
  auto producer = op.getInput().getDefiningOp<RelayoutOp>();
  if (!producer || (producer.getOffsets() && op.getOffsets()))
    return failure();
  Value offsets = op.getOffsets();
  if (producer.getOffsets()) {
    // Tiles are not padded or packed on the way.
    if (!producer->hasOneUse() || !StridedLayout::get(op.getType()))
      return failure();
    offsets = producer.getOffsets();
  }
  if (offsets && !StridedLayout::get(producer.getInput().getType()))
    return failure();
  rewriter.replaceOpWithNewOp<RelayoutOp>(op, op.getType(), producer.getInput(),
                                          offsets);
  return success();
}

void RelayoutOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                             MLIRContext *) {
  patterns.add(composeRelayouts);
}

LogicalResult RelayoutOp::reifyResultSizes(SizeBuilder size,
                                           ResultSizes &sizes) {
  SmallVector<OpFoldResult> &result =
      sizes.emplace_back(size.shape(getInput()));
  GroupPaddingAttr inputPad = fp8moe::getGroupPadding(getInput().getType());
  GroupPaddingAttr resultPad = fp8moe::getGroupPadding(getType());
  if (inputPad == resultPad)
    return success();
  if (resultPad) {
    OpFoldResult &extent = result[resultPad.getDim()];
    extent = size.paddedExtent(extent, size.dim(getOffsets(), 0),
                               resultPad.getPad());
    return success();
  }
  int64_t packed = getType().getDimSize(inputPad.getDim());
  if (ShapedType::isDynamic(packed))
    return emitOpError(
        "packs groups into an unknown number of rows; the padded "
        "extent does not tell it, so give the result a static "
        "size");
  result[inputPad.getDim()] = size.constant(packed);
  return success();
}
