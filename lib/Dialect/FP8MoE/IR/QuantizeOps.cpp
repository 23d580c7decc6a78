//===- QuantizeOps.cpp - Scales and quantize casts ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::detail;

//===----------------------------------------------------------------------===//
// Shapes of scales
//===----------------------------------------------------------------------===//

/// The shape of scales along `axis`: [E, N] for the groups of a matrix.
static SmallVector<int64_t> scaleShape(RankedTensorType input,
                                       RankedTensorType offsets, int64_t axis) {
  if (offsets)
    return {offsets.getDimSize(0), input.getDimSize(1 - axis)};
  return dropDim(input.getShape(), axis);
}

static SmallVector<OpFoldResult>
scaleSizes(SizeBuilder &size, TypedValue<RankedTensorType> input,
           TypedValue<RankedTensorType> offsets, int64_t axis) {
  if (offsets)
    return {size.dim(offsets, 0), size.dim(input, 1 - axis)};
  SmallVector<OpFoldResult> sizes = size.shape(input);
  sizes.erase(sizes.begin() + axis);
  return sizes;
}

/// The shape of `data`, quantized from `input`: its groups may be padded. Data
/// of a higher rank, padded along what the input lacks, has another shape.
static SmallVector<int64_t> dataShape(RankedTensorType data,
                                      RankedTensorType input,
                                      TypedValue<RankedTensorType> offsets) {
  SmallVector<int64_t> shape(input.getShape());
  GroupPaddingAttr padding = getGroupPadding(data);
  if (padding && padding.getDim() < input.getRank()) {
    int64_t &extent = shape[padding.getDim()];
    extent =
        paddedExtent(extent, offsets.getType().getDimSize(0), padding.getPad());
  }
  return shape;
}

static SmallVector<OpFoldResult>
dataSizes(SizeBuilder &size, RankedTensorType data,
          TypedValue<RankedTensorType> input,
          TypedValue<RankedTensorType> offsets) {
  SmallVector<OpFoldResult> sizes = size.shape(input);
  if (GroupPaddingAttr padding = getGroupPadding(data)) {
    OpFoldResult &extent = sizes[padding.getDim()];
    extent = size.paddedExtent(extent, size.dim(offsets, 0), padding.getPad());
  }
  return sizes;
}

/// Checks the f32 scales of `axis`.
static LogicalResult verifyScales(Operation *op, const Twine &what,
                                  RankedTensorType scales,
                                  RankedTensorType input,
                                  TypedValue<RankedTensorType> offsets,
                                  int64_t axis) {
  SmallVector<int64_t> shape =
      scaleShape(input, offsets ? offsets.getType() : RankedTensorType(), axis);
  if (failed(verifyShape(op, what, scales, shape,
                         offsets ? "groups, then the other dimension"
                                 : "the input without the axis")))
    return failure();
  return verifyDenseRowMajor(op, what, scales);
}

//===----------------------------------------------------------------------===//
// Parts of operations' syntax
//===----------------------------------------------------------------------===//

static ParseResult parseDataAndScaleTypes(OpAsmParser &parser,
                                          SmallVectorImpl<Type> &data,
                                          SmallVectorImpl<Type> &scales) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<Type> types;
  if (parser.parseTypeList(types))
    return failure();
  if (types.size() % 2 != 0)
    return parser.emitError(loc) << "expects a type for each data result, then "
                                    "one for each scale result, found "
                                 << types.size() << " in all";
  auto middle = types.begin() + types.size() / 2;
  data.assign(types.begin(), middle);
  scales.assign(middle, types.end());
  return success();
}

static void printDataAndScaleTypes(OpAsmPrinter &printer, Operation *,
                                   TypeRange data, TypeRange scales) {
  llvm::interleaveComma(data, printer);
  printer << ", ";
  llvm::interleaveComma(scales, printer);
}

/// The scales of the first operand of a matmul, or of both: `%sa : type`, or
/// `%sa, %sb : type, type`.
static ParseResult
parseScales(OpAsmParser &parser,
            std::optional<OpAsmParser::UnresolvedOperand> &scaleA, Type &typeA,
            std::optional<OpAsmParser::UnresolvedOperand> &scaleB,
            Type &typeB) {
  if (parser.parseOperand(scaleA.emplace()))
    return failure();
  bool hasBoth = succeeded(parser.parseOptionalComma());
  if (hasBoth && parser.parseOperand(scaleB.emplace()))
    return failure();
  if (parser.parseColonType(typeA))
    return failure();
  if (hasBoth && (parser.parseComma() || parser.parseType(typeB)))
    return failure();
  return success();
}

static void printScales(OpAsmPrinter &printer, Operation *, Value scaleA,
                        Type typeA, Value scaleB, Type typeB) {
  printer << scaleA;
  if (scaleB)
    printer << ", " << scaleB;
  printer << " : " << typeA;
  if (scaleB)
    printer << ", " << typeB;
}

#define GET_OP_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.cpp.inc"

//===----------------------------------------------------------------------===//
// ScaleOp, JaggedScaleOp
//===----------------------------------------------------------------------===//

/// The adaptor has an input, and the offsets of groups where `isJagged`.
template <typename Adaptor>
static LogicalResult
inferScaleType(MLIRContext *context, std::optional<Location> loc,
               Adaptor adaptor, bool isJagged, SmallVectorImpl<Type> &types) {
  if (failed(requireOperands(adaptor, isJagged ? 2 : 1, loc)) ||
      failed(requireAttribute(adaptor.getProperties().axis, "axis", loc)))
    return failure();
  int64_t axis = adaptor.getAxis();
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input || axis < 0 || axis >= input.getRank())
    return emitOptionalError(loc, "expects an axis of the input of type ",
                             adaptor.getInput().getType(), ", found ", axis);
  RankedTensorType offsets;
  if (isJagged) {
    Type type = adaptor.getOperands()[1].getType();
    offsets = dyn_cast<RankedTensorType>(type);
    if (!offsets || offsets.getRank() != 1 || input.getRank() != 2)
      return emitOptionalError(
          loc, "expects an input of rank 2 and offsets of rank 1, found ",
          input, " and ", type);
  }
  types.push_back(RankedTensorType::get(scaleShape(input, offsets, axis),
                                        Float32Type::get(context)));
  return success();
}

template <typename ScaleOpTy> static LogicalResult verifyScaleOp(ScaleOpTy op) {
  RankedTensorType input = op.getInput().getType();
  if (failed(verifySlices(op, input, op.getOffsets(), op.getAxis())))
    return failure();
  return verifyScales(op, "the scales", op.getType(), input, op.getOffsets(),
                      op.getAxis());
}

LogicalResult ScaleOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location> loc,
                                        ScaleOp::Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferScaleType(context, loc, adaptor, /*isJagged=*/false, types);
}

LogicalResult ScaleOp::verify() { return verifyScaleOp(*this); }

LogicalResult JaggedScaleOp::inferReturnTypes(MLIRContext *context,
                                              std::optional<Location> loc,
                                              JaggedScaleOp::Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  return inferScaleType(context, loc, adaptor, /*isJagged=*/true, types);
}

LogicalResult JaggedScaleOp::verify() { return verifyScaleOp(*this); }

//===----------------------------------------------------------------------===//
// QuantizeOp, DequantizeOp
//===----------------------------------------------------------------------===//

template <typename CastOp> static LogicalResult verifyCast(CastOp op) {
  RankedTensorType input = op.getInput().getType();
  if (failed(verifySlices(op, input, op.getOffsets(), op.getAxis())) ||
      failed(verifyScales(op, "the scales", op.getScale().getType(), input,
                          op.getOffsets(), op.getAxis())))
    return failure();
  return verifyElements(op, "the result", op.getType(), input);
}

/// Each dimension of the scales counts something of the input or of the groups.
template <typename CastOp>
static void getCastEqualSizes(CastOp op, SmallVectorImpl<EqualSizes> &pairs) {
  if (op.getOffsets()) {
    pairs.push_back({op.getScale(), 0, op.getOffsets(), 0});
    pairs.push_back({op.getScale(), 1, op.getInput(), 1 - op.getAxis()});
    return;
  }
  for (int64_t dim = 0; dim < op.getScale().getType().getRank(); ++dim)
    pairs.push_back({op.getScale(), dim, op.getInput(),
                     dim < op.getAxis() ? dim : dim + 1});
}

void QuantizeOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  getCastEqualSizes(*this, pairs);
}

void DequantizeOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  getCastEqualSizes(*this, pairs);
}

LogicalResult QuantizeOp::verify() { return verifyCast(*this); }

LogicalResult DequantizeOp::verify() { return verifyCast(*this); }

//===----------------------------------------------------------------------===//
// DynamicQuantizeOp, JaggedDynamicQuantizeOp
//===----------------------------------------------------------------------===//

/// Checks one pair of data and scales.
static LogicalResult
verifyQuantized(Operation *op, const Twine &index, RankedTensorType data,
                RankedTensorType scales, RankedTensorType input,
                TypedValue<RankedTensorType> offsets, int64_t axis) {
  GroupPaddingAttr padding = getGroupPadding(data);
  if (padding && (!offsets || padding.getDim() != axis))
    return op->emitOpError("expects data #")
           << index
           << (offsets ? " to pad groups along the jagged axis " + Twine(axis)
                       : Twine(" to be packed, because groups do not cut it"))
           << ", found " << data.getEncoding();
  if (failed(verifyShape(op, "data #" + index, data,
                         dataShape(data, input, offsets),
                         padding ? "the padded extent along the jagged axis"
                                 : "that of the input")) ||
      failed(verifyWritable(op, "data #" + index, data)))
    return failure();
  return verifyScales(op, "scales #" + index, scales, input, offsets, axis);
}

/// Checks what tiles say together; which of them are legal, targets know.
static LogicalResult verifyTiles(TiledOpInterface op, size_t numAxes) {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (!choice)
    return success();
  if (choice.getLeastWaves())
    return op->emitOpError("expects ranges to decide between its tiles, found "
                           "'least_waves', which counts those of a matmul; "
                           "remove it and the times of waves");
  for (auto [index, alternative] : llvm::enumerate(choice.getEntries())) {
    TileAttrInterface tile = alternative.getTile();
    auto perAxis = dyn_cast<PerAxisAttr>(tile);
    if (!perAxis)
      continue;
    if (perAxis.getChoices().size() != numAxes)
      return op->emitOpError("along ")
             << numAxes << (numAxes == 1 ? " axis" : " axes") << " has "
             << perAxis.getChoices().size()
             << " choices in #fp8moe.per_axis<[...]>; "
             << (numAxes == 1 ? "write one without it" : "write one for each");
    if (index + 1 != choice.size() || alternative.getRange())
      return op->emitOpError("expects #fp8moe.per_axis<[...]> as the last "
                             "alternative, without a range: it takes what is "
                             "left; ranges stand within it");
    for (auto ofAxis : perAxis.getChoices().getAsRange<KernelChoiceAttr>())
      if (ofAxis.getLeastWaves())
        return op->emitOpError("expects ranges to decide between the tiles of "
                               "an axis, found 'least_waves'; remove it and "
                               "the times of waves");
  }
  return success();
}

template <typename OpTy> static LogicalResult verifyDynamic(OpTy op) {
  RankedTensorType input = op.getInput().getType();
  TypedValue<RankedTensorType> offsets = op.getOffsets();
  if (failed(verifyAxes(op, op.getAxes(), input)) ||
      failed(verifyTiles(op, op.getAxes().size())) ||
      failed(verifySlices(op, input, offsets, op.getAxes()[0])))
    return failure();
  for (auto [i, axis] : llvm::enumerate(op.getAxes())) {
    auto data = cast<RankedTensorType>(op.getQuantized()[i].getType());
    auto scales = cast<RankedTensorType>(op.getScales()[i].getType());
    if (failed(
            verifyQuantized(op, Twine(i), data, scales, input, offsets, axis)))
      return failure();
    // Groups cut the first axis only.
    offsets = {};
  }
  return success();
}

LogicalResult DynamicQuantizeOp::verify() { return verifyDynamic(*this); }

LogicalResult JaggedDynamicQuantizeOp::verify() { return verifyDynamic(*this); }

SliceOpInterface fp8moe::createDynamicQuantize(OpBuilder &builder, Location loc,
                                               TypeRange data, TypeRange scales,
                                               Value input, Value offsets,
                                               ArrayRef<int64_t> axes,
                                               ScaleRounding rounding,
                                               KernelChoiceAttr tiles) {
  if (offsets)
    return JaggedDynamicQuantizeOp::create(builder, loc, data, scales, input,
                                           offsets, axes, rounding, tiles);
  return DynamicQuantizeOp::create(builder, loc, data, scales, input, axes,
                                   rounding, tiles);
}

//===----------------------------------------------------------------------===//
// SliceOpInterface
//===----------------------------------------------------------------------===//

ResultRange SliceOpInterface::getDataResults() {
  ResultRange results = getOperation()->getResults();
  return results.take_front(getScaleOperand() ? 1 : results.size() / 2);
}

ResultRange SliceOpInterface::getScaleResults() {
  return getOperation()->getResults().drop_front(getDataResults().size());
}

bool SliceOpInterface::hasBlocks() {
  return isa<MXQuantizeOp, MXDequantizeOp>(getOperation());
}

LogicalResult SliceOpInterface::reifySizes(SizeBuilder size,
                                           ResultSizes &sizes) {
  TypedValue<RankedTensorType> input = getInput(), offsets = getOffsets();
  for (Value data : getDataResults())
    sizes.push_back(dataSizes(size, cast<RankedTensorType>(data.getType()),
                              input, offsets));
  for (auto [scales, axis] : llvm::zip(getScaleResults(), getSliceAxes())) {
    if (hasBlocks()) {
      sizes.push_back(blockScaleSizes(size, size.shape(input), offsets, axis));
      continue;
    }
    sizes.push_back(scaleSizes(size, input, offsets, axis));
    // Groups cut the first axis only.
    offsets = {};
  }
  return success();
}

/// A kernel with slices along an axis walks over the slice and over one other
/// dimension; the first of three dimensions (experts) only separates blocks.
TensorAccess SliceOpInterface::getAccess(Value tensor) {
  if (tensor != getInput() && !llvm::is_contained(getDataResults(), tensor))
    return TensorAccess::fixed();
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!StridedLayout::get(type))
    return TensorAccess::fixed();
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (dim == getSliceAxes().front() || dim > 0 || type.getRank() < 3)
      dims.push_back(dim);
  return TensorAccess::free(dims);
}
