//===- MatmulOps.cpp - Dense and grouped matmuls --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"

#include "fp8moe/Target/NVIDIA.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::detail;

/// Checks the pair of element types.
static LogicalResult verifyElementTypes(MatmulOpInterface op) {
  Type a = op.getA().getType().getElementType();
  Type b = op.getB().getType().getElementType();
  if (isFp8Type(a) != isFp8Type(b))
    return op.emitOpError("expects both operands FP8 or both bf16, found ")
           << a << " and " << b;
  if (!isFp8Type(a))
    return success();
  if (getFp8Flavour(a) != getFp8Flavour(b))
    return op.emitOpError("mixes FP8 flavours: ")
           << a << " and " << b
           << "; quantize both operands to types of one flavour, or both to "
              "!fp8moe types";
  if (getFp8Format(a) == Fp8Format::E5M2 && getFp8Format(b) == Fp8Format::E5M2)
    return op.emitOpError(
        "does not multiply e5m2 by e5m2; at least one operand "
        "must be e4m3 (only gradients need e5m2)");
  return success();
}

bool fp8moe::hasBlockScales(MatmulOpInterface op) {
  return op.getScaleA() &&
         isa<Float8E8M0FNUType>(op.getScaleA().getType().getElementType());
}

/// Checks that FP8 operands have scales, of slices with a direction or of
/// blocks without one, and bf16 ones neither. The second operand may do without
/// scales of slices.
static LogicalResult verifyScalePresence(MatmulOpInterface op) {
  bool fp8 = isFp8Type(op.getA().getType().getElementType());
  if (fp8 && op.getScaleA() && op.getScaleB()) {
    Type a = op.getScaleA().getType().getElementType();
    Type b = op.getScaleB().getType().getElementType();
    if (a != b)
      return op.emitOpError("expects scales of slices (f32) for both operands, "
                            "or of blocks (f8E8M0FNU) for both, found ")
             << a << " and " << b;
    if (hasBlockScales(op) && op.getDirection())
      return op.emitOpError("has scales of blocks, which always dequantize; "
                            "remove 'direction'");
    if (hasBlockScales(op))
      return success();
  }
  if (fp8 && hasBlockScales(op))
    return op.emitOpError("has scales of blocks of the first operand only; "
                          "give those of the second one, too");
  if (fp8 && !op.getScaleA() && op.getScaleB())
    return op.emitOpError("has scales of the second operand only; give those "
                          "of the first one, too");
  if (fp8 && op.getScaleA() && !op.getDirection())
    return op.emitOpError("has scales of slices (f32) and no direction; add "
                          "'direction quantize' or 'direction dequantize'");
  bool hasScales = op.getScaleA() || op.getScaleB();
  if (fp8 != hasScales || fp8 != op.getDirection().has_value())
    return op.emitOpError()
           << (fp8 ? "multiplies FP8 operands and needs 'scales(...)' and "
                     "'direction quantize' or 'direction dequantize'"
                   : "multiplies bf16 operands, which have no 'scales(...)' "
                     "and no 'direction'");
  return success();
}

static LogicalResult verifyEqualSize(MatmulOpInterface op, const Twine &what,
                                     int64_t a, int64_t b) {
  if (a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b))
    return success();
  return op.emitOpError("expects ")
         << what << " to agree, found " << a << " and " << b;
}

/// Checks the number of groups and that operands pad them alike.
static LogicalResult verifyGroups(GroupedMatmulOp op) {
  RankedTensorType a = op.getA().getType(), b = op.getB().getType();
  if (op.isMGrouped()) {
    if (failed(verifyPacked(op, "the first operand", a)) ||
        failed(verifyPacked(op, "the second operand", b)))
      return failure();
    return verifyEqualSize(op, "the number of experts and of group offsets",
                           b.getDimSize(0),
                           op.getOffsets().getType().getDimSize(0));
  }
  GroupPaddingAttr padA = getGroupPadding(a), padB = getGroupPadding(b);
  if (static_cast<bool>(padA) != static_cast<bool>(padB) ||
      (padA && padA.getPad() != padB.getPad()))
    return op.emitOpError("expects both operands to pad their groups alike, "
                          "found ")
           << a << " and " << b;
  if (padA && (padA.getDim() != 1 || padB.getDim() != 0))
    return op.emitOpError(
               "expects padded groups along dimension 1 of the first "
               "and 0 of the second operand, found ")
           << a << " and " << b;
  return success();
}

/// Checks what is added to the product.
static LogicalResult verifyAddend(MatmulOpInterface op) {
  if (!op.getAddend())
    return success();
  RankedTensorType addend = op.getAddend().getType();
  if (haveSameLayout(addend, op.getType()))
    return success();
  return op.emitOpError("expects the tensor to accumulate into to have the "
                        "result's type ")
         << op.getType() << ", found " << addend;
}

/// Checks that scales are those of the recipe by which FP8 was decided: of
/// blocks for 'mxfp8', of rows and columns otherwise.
static LogicalResult verifyRecipe(MatmulOpInterface op,
                                  PrecisionRecipe recipe) {
  bool ofBlocks = hasBlockScales(op);
  if (ofBlocks == (recipe == PrecisionRecipe::MXFP8))
    return success();
  return op.emitOpError("has scales of ")
         << (ofBlocks ? "blocks" : "rows and columns")
         << ", but its precision says recipe '"
         << stringifyPrecisionRecipe(recipe)
         << "'; write 'recipe = " << (ofBlocks ? "mxfp8" : "rowwise") << "'";
}

/// Checks that the decision is about this matmul: groups are contracted in
/// weight gradients only, and FP8 operands come from the decision 'fp8' only.
static LogicalResult verifyPrecision(MatmulOpInterface op) {
  PrecisionAttr precision = op.getPrecisionAttr();
  if (!precision)
    return success();
  bool isWeightGradient = precision.getUse() == MatmulUse::WGrad;
  if (!op.isDense() && isWeightGradient == op.isMGrouped())
    return op.emitOpError()
           << (op.isMGrouped() ? "multiplies rows of groups by experts"
                               : "contracts groups, as a weight gradient does")
           << ", but its precision says '"
           << stringifyMatmulUse(precision.getUse()) << "'; write "
           << (op.isMGrouped() ? "'forward' or 'dgrad'" : "'wgrad'");
  if (!isFp8Type(op.getA().getType().getElementType()))
    return success();
  if (precision.getChoice() == PrecisionChoice::FP8)
    return verifyRecipe(op, precision.getRecipe());
  return op.emitOpError("multiplies FP8 operands, but its precision says '")
         << stringifyPrecisionChoice(precision.getChoice())
         << "'; write 'fp8', or give it bf16 operands without scales";
}

/// Checks what tiles say together; which of them are legal, targets know.
static LogicalResult verifyTiles(MatmulOpInterface op) {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (!choice)
    return success();
  for (AlternativeAttr alternative : choice.getEntries())
    if (RangeAttr range = alternative.getRange())
      return op.emitOpError("decides between tiles by waves, found ")
             << range << "; write 'tiles least_waves [...]', or one tile";
  if (choice.size() == 1 || choice.getLeastWaves())
    return success();
  return op.emitOpError("has ")
         << choice.size()
         << " tiles, and nothing decides between them; write 'tiles "
            "least_waves [...]' with the time of a wave behind each, or one "
            "tile";
}

/// Checks everything but shapes, groups and the layout of the result.
static LogicalResult verifyOperands(MatmulOpInterface op) {
  if (failed(verifyElementTypes(op)) || failed(verifyScalePresence(op)) ||
      failed(verifyPrecision(op)) || failed(verifyTiles(op)) ||
      failed(verifyStrided(op, "the first operand", op.getA().getType())))
    return failure();
  return verifyStrided(op, "the second operand", op.getB().getType());
}

//===----------------------------------------------------------------------===//
// Scales of blocks
//===----------------------------------------------------------------------===//

/// The shape that the blocks of an operand divide: the operand's own with the
/// rows of groups first, and the axis of the contraction in it.
static std::pair<SmallVector<int64_t>, int64_t>
getBlockedShape(MatmulOpInterface op, bool ofA) {
  SmallVector<int64_t> shape(
      (ofA ? op.getA() : op.getB()).getType().getShape());
  if (!ofA || op.isMGrouped())
    return {shape, ofA ? op.getContractedDimA() : op.getContractedDimB()};
  // The first operand of a K-grouped matmul has them last.
  std::swap(shape[0], shape[1]);
  return {shape, 0};
}

/// The groups that the scales of an operand are padded for, if any.
static TypedValue<RankedTensorType> getScaleGroups(MatmulOpInterface op,
                                                   bool ofA) {
  if (op.isDense())
    return {};
  bool isPadded = static_cast<bool>(
      getGroupPadding((ofA ? op.getScaleA() : op.getScaleB()).getType()));
  // Rows of experts' weights are in no group.
  bool mayBePadded = ofA && op.isMGrouped();
  return !op.isMGrouped() || (mayBePadded && isPadded)
             ? op.getOffsets()
             : TypedValue<RankedTensorType>();
}

/// Checks scales of blocks along the contraction.
static LogicalResult verifyBlockScales(MatmulOpInterface op) {
  if (getGroupPadding(op.getA().getType()))
    return op.emitOpError("has scales of blocks, which start at the first row "
                          "of each group, and expects operands with packed "
                          "groups, found ")
           << op.getA().getType();
  for (bool ofA : {true, false}) {
    auto [shape, axis] = getBlockedShape(op, ofA);
    if (failed(
            verifyBlockScales(op,
                              Twine("the scales of the ") +
                                  (ofA ? "first" : "second") + " operand",
                              (ofA ? op.getScaleA() : op.getScaleB()).getType(),
                              shape, getScaleGroups(op, ofA), axis)))
      return failure();
  }
  return success();
}

SmallVector<OpFoldResult>
fp8moe::getBlockScaleSizes(MatmulOpInterface op, bool ofA, SizeBuilder size) {
  SmallVector<OpFoldResult> shape = size.shape(ofA ? op.getA() : op.getB());
  if (ofA && !op.isMGrouped())
    std::swap(shape[0], shape[1]);
  return blockScaleSizes(size, shape, getScaleGroups(op, ofA),
                         getBlockedShape(op, ofA).second);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

namespace {
struct OperandDim {
  TypedValue<RankedTensorType> tensor;
  int64_t dim;
};

/// The dimensions of operands that give a tensor its shape, and their names.
struct ShapeOfDims {
  SmallVector<OperandDim, 3> dims;
  StringRef names;

  SmallVector<int64_t> getShape() const {
    return llvm::map_to_vector(dims, [](const OperandDim &entry) {
      return entry.tensor.getType().getDimSize(entry.dim);
    });
  }
  /// Appends that `tensor`, which may be null, has this shape.
  void addEqualSizes(Value tensor, SmallVectorImpl<EqualSizes> &pairs) const {
    if (tensor)
      for (auto [dim, entry] : llvm::enumerate(dims))
        pairs.push_back(
            {tensor, static_cast<int64_t>(dim), entry.tensor, entry.dim});
  }
};

/// The shapes of the result and of scales of slices.
struct MatmulShapes {
  ShapeOfDims result, scaleA, scaleB;

  explicit MatmulShapes(MatmulOpInterface op) {
    OperandDim rows{op.getA(), 0}, group{op.getOffsets(), 0};
    if (op.isDense()) {
      OperandDim columns{op.getB(), 1};
      result = {{rows, columns}, "[M, N]"};
      scaleA = {{rows}, "[M]"};
      scaleB = {{columns}, "[N]"};
    } else if (op.isMGrouped()) {
      OperandDim expert{op.getB(), 0}, columns{op.getB(), 2};
      result = {{rows, columns}, "[M, N]"};
      scaleA = {{rows}, "[M]"};
      scaleB = {{expert, columns}, "[E, N]"};
    } else {
      OperandDim columns{op.getB(), 1};
      result = {{group, rows, columns}, "[E, N, K]"};
      scaleA = {{group, rows}, "[E, N]"};
      scaleB = {{group, columns}, "[E, K]"};
    }
  }
};
} // namespace

/// Checks the shapes of scales of slices, where there are any.
static LogicalResult verifyScales(MatmulOpInterface op,
                                  const MatmulShapes &shapes) {
  auto verify = [&](const Twine &what, TypedValue<RankedTensorType> scales,
                    const ShapeOfDims &expected) {
    return failure(scales &&
                   (failed(verifyShape(op, what, scales.getType(),
                                       expected.getShape(), expected.names)) ||
                    failed(verifyDenseRowMajor(op, what, scales.getType()))));
  };
  return failure(failed(verify("the scales of the first operand",
                               op.getScaleA(), shapes.scaleA)) ||
                 failed(verify("the scales of the second operand",
                               op.getScaleB(), shapes.scaleB)));
}

/// Checks what is contracted, the result and the scales.
static LogicalResult verifyShapes(MatmulOpInterface op) {
  MatmulShapes shapes(op);
  if (failed(verifyEqualSize(
          op, "the contracted sizes", op.getA().getType().getDimSize(1),
          op.getB().getType().getDimSize(op.getContractedDimB()))) ||
      failed(verifyShape(op, "the result", op.getType(),
                         shapes.result.getShape(), shapes.result.names)) ||
      failed(verifyPacked(op, "the result", op.getType())) ||
      failed(verifyWritable(op, "the result", op.getType())) ||
      failed(verifyAddend(op)))
    return failure();
  return hasBlockScales(op) ? verifyBlockScales(op) : verifyScales(op, shapes);
}

static LogicalResult reifySizes(MatmulOpInterface op, SizeBuilder size,
                                ResultSizes &sizes) {
  sizes.push_back(llvm::map_to_vector(
      MatmulShapes(op).result.dims, [&](const OperandDim &entry) {
        return size.dim(entry.tensor, entry.dim);
      }));
  return success();
}

static void addEqualSizes(MatmulOpInterface op,
                          SmallVectorImpl<EqualSizes> &pairs) {
  MatmulShapes shapes(op);
  pairs.push_back({op.getA(), 1, op.getB(), op.getContractedDimB()});
  if (!op.isDense() && op.isMGrouped())
    pairs.push_back({op.getB(), 0, op.getOffsets(), 0});
  shapes.result.addEqualSizes(op.getAddend(), pairs);
  // Sizes of block scales follow from those of operands.
  if (hasBlockScales(op))
    return;
  shapes.scaleA.addEqualSizes(op.getScaleA(), pairs);
  shapes.scaleB.addEqualSizes(op.getScaleB(), pairs);
}

LogicalResult LinearOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  if (a.getRank() != 2 || b.getRank() != 2)
    return emitOpError("expects operands of ranks 2 and 2, found ")
           << a.getRank() << " and " << b.getRank()
           << "; fp8moe.grouped_matmul multiplies by several experts";
  if (failed(verifyOperands(*this)) ||
      failed(verifyPacked(*this, "the first operand", a)) ||
      failed(verifyPacked(*this, "the second operand", b)))
    return failure();
  return verifyShapes(*this);
}

LogicalResult GroupedMatmulOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  if (a.getRank() != 2 || (b.getRank() != 2 && b.getRank() != 3))
    return emitOpError("expects operands of ranks 2 and 3 (M-grouped) or 2 and "
                       "2 (K-grouped), found ")
           << a.getRank() << " and " << b.getRank();
  if (failed(verifyOperands(*this)) ||
      failed(verifyOffsets(*this, getOffsets())) || failed(verifyGroups(*this)))
    return failure();
  return verifyShapes(*this);
}

LogicalResult LinearOp::reifyResultSizes(SizeBuilder size, ResultSizes &sizes) {
  return reifySizes(*this, size, sizes);
}

LogicalResult GroupedMatmulOp::reifyResultSizes(SizeBuilder size,
                                                ResultSizes &sizes) {
  return reifySizes(*this, size, sizes);
}

void LinearOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  addEqualSizes(*this, pairs);
}

void GroupedMatmulOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  addEqualSizes(*this, pairs);
}

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

static TensorAccess getAccess(MatmulOpInterface op, Value tensor,
                              const TargetInfo &target) {
  bool isOperand = tensor == op.getA() || tensor == op.getB();
  bool isFreeResult = tensor == op.getResult() && !op.getAddend();
  if (!isOperand && !isFreeResult)
    return TensorAccess::fixed();
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  SmallVector<int64_t> walked = {rank - 2, rank - 1};
  // Tensor cores read FP8 with the contracted dimension contiguous.
  bool fp8 = isFp8Type(op.getA().getType().getElementType());
  if (!isOperand || !target.isGPU() || !fp8)
    return TensorAccess::free(walked);
  return TensorAccess::free(walked, tensor == op.getB()
                                        ? op.getContractedDimB()
                                        : op.getContractedDimA());
}

TensorAccess LinearOp::getTensorAccess(Value tensor, const TargetInfo &target) {
  return getAccess(*this, tensor, target);
}

TensorAccess GroupedMatmulOp::getTensorAccess(Value tensor,
                                              const TargetInfo &target) {
  return getAccess(*this, tensor, target);
}

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

LogicalResult fp8moe::requirePrecision(MatmulOpInterface op) {
  PrecisionAttr precision = op.getPrecisionAttr();
  if (!precision || isFp8Type(op.getA().getType().getElementType()))
    return success();
  switch (precision.getChoice()) {
  case PrecisionChoice::BF16:
    return success();
  case PrecisionChoice::Undecided:
    return op.emitOpError("cannot be lowered while its precision is "
                          "undecided; run --fp8moe-select-precision and "
                          "--fp8moe-apply-precision, or write 'precision "
                          "<bf16, ...>'");
  case PrecisionChoice::FP8:
    return op.emitOpError("was decided to be FP8, but multiplies bf16 "
                          "operands; run --fp8moe-apply-precision, which "
                          "quantizes them");
  }
  llvm_unreachable("unknown choice");
}
