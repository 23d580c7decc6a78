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

/// [E, N] for a jagged axis of a matrix.
static SmallVector<int64_t> jaggedScaleShape(RankedTensorType input,
                                             RankedTensorType offsets,
                                             int64_t axis) {
  return {offsets.getDimSize(0), input.getDimSize(1 - axis)};
}

/// The scale shape of `axis`, cut by groups when there are offsets.
static SmallVector<int64_t> scaleShape(RankedTensorType input,
                                       TypedValue<RankedTensorType> offsets,
                                       int64_t axis) {
  return offsets ? jaggedScaleShape(input, offsets.getType(), axis)
                 : dropDim(input.getShape(), axis);
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
  if (failed(verifyShape(op, what, scales, scaleShape(input, offsets, axis),
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

static LogicalResult inferScaleType(MLIRContext *context,
                                    std::optional<Location> loc, Value input,
                                    Value offsets, int64_t axis,
                                    SmallVectorImpl<Type> &types) {
  auto inputType = dyn_cast<RankedTensorType>(input.getType());
  if (!inputType || axis < 0 || axis >= inputType.getRank())
    return emitOptionalError(loc, "expects an axis of the input of type ",
                             input.getType(), ", found ", axis);
  SmallVector<int64_t> shape;
  if (offsets) {
    auto offsetsType = dyn_cast<RankedTensorType>(offsets.getType());
    if (!offsetsType || offsetsType.getRank() != 1 || inputType.getRank() != 2)
      return emitOptionalError(
          loc, "expects an input of rank 2 and offsets of rank 1, found ",
          inputType, " and ", offsets.getType());
    shape = jaggedScaleShape(inputType, offsetsType, axis);
  } else {
    shape = dropDim(inputType.getShape(), axis);
  }
  types.push_back(RankedTensorType::get(shape, Float32Type::get(context)));
  return success();
}

static bool isSameScaleType(TypeRange inferred, TypeRange actual) {
  return haveSameLayout(cast<RankedTensorType>(inferred[0]),
                        cast<RankedTensorType>(actual[0]));
}

LogicalResult ScaleOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location> loc,
                                        ScaleOp::Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  if (failed(requireOperands(adaptor, 1, loc)) ||
      failed(requireAttribute(adaptor.getProperties().axis, "axis", loc)))
    return failure();
  return inferScaleType(context, loc, adaptor.getInput(), Value(),
                        adaptor.getAxis(), types);
}

bool ScaleOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  return isSameScaleType(inferred, actual);
}

LogicalResult ScaleOp::verify() {
  if (failed(verifySlices(*this, getInput().getType(), {}, getAxis())))
    return failure();
  return verifyScales(*this, "the scales", getType(), getInput().getType(), {},
                      getAxis());
}

LogicalResult
ScaleOp::reifyResultSizes(OpBuilder &builder, Location loc, GetDimFn getDim,
                          SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  SizeBuilder size(builder, loc, getDim);
  sizes.push_back(scaleSizes(size, getInput(), {}, getAxis()));
  return success();
}

LogicalResult JaggedScaleOp::inferReturnTypes(MLIRContext *context,
                                              std::optional<Location> loc,
                                              JaggedScaleOp::Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (failed(requireOperands(adaptor, 2, loc)) ||
      failed(requireAttribute(adaptor.getProperties().axis, "axis", loc)))
    return failure();
  return inferScaleType(context, loc, adaptor.getInput(), adaptor.getOffsets(),
                        adaptor.getAxis(), types);
}

bool JaggedScaleOp::isCompatibleReturnTypes(TypeRange inferred,
                                            TypeRange actual) {
  return isSameScaleType(inferred, actual);
}

LogicalResult JaggedScaleOp::verify() {
  if (failed(
          verifySlices(*this, getInput().getType(), getOffsets(), getAxis())))
    return failure();
  return verifyScales(*this, "the scales", getType(), getInput().getType(),
                      getOffsets(), getAxis());
}

LogicalResult JaggedScaleOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  SizeBuilder size(builder, loc, getDim);
  sizes.push_back(scaleSizes(size, getInput(), getOffsets(), getAxis()));
  return success();
}

//===----------------------------------------------------------------------===//
// QuantizeOp, DequantizeOp
//===----------------------------------------------------------------------===//

template <typename CastOp> static LogicalResult verifyCast(CastOp op) {
  RankedTensorType input = op.getInput().getType();
  if (failed(verifySlices(op, input, op.getOffsets(), op.getAxis())) ||
      failed(verifyScales(op, "the scales", op.getScale().getType(), input,
                          op.getOffsets(), op.getAxis())) ||
      failed(verifyShape(op, "the result", op.getType(), input.getShape(),
                         "that of the input")) ||
      failed(verifyPacked(op, "the result", op.getType())))
    return failure();
  return verifyWritable(op, "the result", op.getType());
}

template <typename CastOp>
static LogicalResult
reifyCastSizes(CastOp op, OpBuilder &builder, Location loc, GetDimFn getDim,
               SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  sizes.push_back(SizeBuilder(builder, loc, getDim).shape(op.getInput()));
  return success();
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

LogicalResult QuantizeOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  return reifyCastSizes(*this, builder, loc, getDim, sizes);
}

LogicalResult DequantizeOp::verify() { return verifyCast(*this); }

LogicalResult DequantizeOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  return reifyCastSizes(*this, builder, loc, getDim, sizes);
}

//===----------------------------------------------------------------------===//
// DynamicQuantizeOp, JaggedDynamicQuantizeOp
//===----------------------------------------------------------------------===//

/// Checks the axes and the number of results of a fused quantize.
static LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes,
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

/// Groups cut the first axis only, if there are any.
template <typename OpTy>
static LogicalResult verifyDynamic(OpTy op,
                                   TypedValue<RankedTensorType> offsets) {
  RankedTensorType input = op.getInput().getType();
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
    offsets = {};
  }
  return success();
}

template <typename OpTy>
static LogicalResult
reifyDynamicSizes(OpTy op, TypedValue<RankedTensorType> offsets,
                  SizeBuilder size,
                  SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  for (Value data : op.getQuantized())
    sizes.push_back(dataSizes(size, cast<RankedTensorType>(data.getType()),
                              op.getInput(), offsets));
  for (int64_t axis : op.getAxes()) {
    sizes.push_back(scaleSizes(size, op.getInput(), offsets, axis));
    offsets = {};
  }
  return success();
}

LogicalResult DynamicQuantizeOp::verify() { return verifyDynamic(*this, {}); }

LogicalResult DynamicQuantizeOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  return reifyDynamicSizes(*this, {}, SizeBuilder(builder, loc, getDim), sizes);
}

LogicalResult JaggedDynamicQuantizeOp::verify() {
  return verifyDynamic(*this, getOffsets());
}

LogicalResult JaggedDynamicQuantizeOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  return reifyDynamicSizes(*this, getOffsets(),
                           SizeBuilder(builder, loc, getDim), sizes);
}

//===----------------------------------------------------------------------===//
// KernelOpInterface
//===----------------------------------------------------------------------===//

TensorAccess ScaleOp::getTensorAccess(Value tensor, const TargetInfo &) {
  return tensor == getInput() ? walkSlices(tensor, getAxis())
                              : TensorAccess::fixed();
}

TensorAccess JaggedScaleOp::getTensorAccess(Value tensor, const TargetInfo &) {
  return tensor == getInput() ? walkSlices(tensor, getAxis())
                              : TensorAccess::fixed();
}

TensorAccess QuantizeOp::getTensorAccess(Value tensor, const TargetInfo &) {
  return tensor == getInput() || tensor == getResult()
             ? walkSlices(tensor, getAxis())
             : TensorAccess::fixed();
}

TensorAccess DequantizeOp::getTensorAccess(Value tensor, const TargetInfo &) {
  return tensor == getInput() || tensor == getResult()
             ? walkSlices(tensor, getAxis())
             : TensorAccess::fixed();
}

TensorAccess DynamicQuantizeOp::getTensorAccess(Value tensor,
                                                const TargetInfo &) {
  return tensor == getInput() || llvm::is_contained(getQuantized(), tensor)
             ? walkSlices(tensor, getAxes()[0])
             : TensorAccess::fixed();
}

TensorAccess JaggedDynamicQuantizeOp::getTensorAccess(Value tensor,
                                                      const TargetInfo &) {
  return tensor == getInput() || llvm::is_contained(getQuantized(), tensor)
             ? walkSlices(tensor, getAxes()[0])
             : TensorAccess::fixed();
}

/// GPUs have a kernel for one axis, besides that of the tile both_axes, which
/// is chosen when tiles are. On the CPU, where there are no launches and time
/// is not tuned, an operation counts once.
static int64_t countPasses(ArrayRef<int64_t> axes, const TargetInfo &target) {
  return target.isGPU() ? axes.size() : 1;
}

int64_t DynamicQuantizeOp::getNumPasses(const TargetInfo &target) {
  return countPasses(getAxes(), target);
}

int64_t JaggedDynamicQuantizeOp::getNumPasses(const TargetInfo &target) {
  return countPasses(getAxes(), target);
}
