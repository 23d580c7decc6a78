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

/// Checks the shapes of the scales, where there are any.
static LogicalResult verifyScales(MatmulOpInterface op, ArrayRef<int64_t> a,
                                  StringRef whyA, ArrayRef<int64_t> b,
                                  StringRef whyB) {
  if (!op.getScaleA())
    return success();
  auto verifyOne = [&](const Twine &what, RankedTensorType type,
                       ArrayRef<int64_t> shape, StringRef why) {
    return failure(failed(verifyShape(op, what, type, shape, why)) ||
                   failed(verifyDenseRowMajor(op, what, type)));
  };
  if (failed(verifyOne("the scales of the first operand",
                       op.getScaleA().getType(), a, whyA)))
    return failure();
  if (!op.getScaleB())
    return success();
  return verifyOne("the scales of the second operand", op.getScaleB().getType(),
                   b, whyB);
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

void fp8moe::reifyBlockScaleSizes(MatmulOpInterface op, bool ofA,
                                  OpBuilder &builder, GetDimFn getDim,
                                  SmallVectorImpl<OpFoldResult> &sizes) {
  SizeBuilder size(builder, op.getLoc(), getDim);
  SmallVector<OpFoldResult> shape = size.shape(ofA ? op.getA() : op.getB());
  if (ofA && !op.isMGrouped())
    std::swap(shape[0], shape[1]);
  llvm::append_range(sizes,
                     blockScaleSizes(size, shape, getScaleGroups(op, ofA),
                                     getBlockedShape(op, ofA).second));
}

//===----------------------------------------------------------------------===//
// Dense
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  if (a.getRank() != 2 || b.getRank() != 2)
    return emitOpError("expects operands of ranks 2 and 2, found ")
           << a.getRank() << " and " << b.getRank()
           << "; fp8moe.grouped_matmul multiplies by several experts";
  if (failed(verifyOperands(*this)) ||
      failed(verifyPacked(*this, "the first operand", a)) ||
      failed(verifyPacked(*this, "the second operand", b)) ||
      failed(verifyEqualSize(*this, "the contracted sizes", a.getDimSize(1),
                             b.getDimSize(0))) ||
      failed(verifyShape(*this, "the result", getType(),
                         {a.getDimSize(0), b.getDimSize(1)}, "[M, N]")) ||
      failed(verifyPacked(*this, "the result", getType())) ||
      failed(verifyWritable(*this, "the result", getType())) ||
      failed(verifyAddend(*this)))
    return failure();
  if (hasBlockScales(*this))
    return verifyBlockScales(*this);
  return verifyScales(*this, a.getDimSize(0), "[M]", b.getDimSize(1), "[N]");
}

LogicalResult
LinearOp::reifyResultSizes(OpBuilder &builder, Location loc, GetDimFn getDim,
                           SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  SizeBuilder size(builder, loc, getDim);
  sizes.push_back({size.dim(getA(), 0), size.dim(getB(), 1)});
  return success();
}

void LinearOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  pairs.push_back({getA(), 1, getB(), 0});
  if (getAddend()) {
    pairs.push_back({getAddend(), 0, getA(), 0});
    pairs.push_back({getAddend(), 1, getB(), 1});
  }
  // Sizes of block scales follow from those of operands.
  if (getScaleA() && !hasBlockScales(*this)) {
    pairs.push_back({getScaleA(), 0, getA(), 0});
    if (getScaleB())
      pairs.push_back({getScaleB(), 0, getB(), 1});
  }
}

//===----------------------------------------------------------------------===//
// Grouped
//===----------------------------------------------------------------------===//

LogicalResult GroupedMatmulOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  if (a.getRank() != 2 || (b.getRank() != 2 && b.getRank() != 3))
    return emitOpError("expects operands of ranks 2 and 3 (M-grouped) or 2 and "
                       "2 (K-grouped), found ")
           << a.getRank() << " and " << b.getRank();
  if (failed(verifyOperands(*this)) ||
      failed(verifyOffsets(*this, getOffsets())) || failed(verifyGroups(*this)))
    return failure();

  int64_t experts = getOffsets().getType().getDimSize(0);
  bool mGrouped = isMGrouped();
  if (failed(verifyEqualSize(*this, "the contracted sizes", a.getDimSize(1),
                             b.getDimSize(mGrouped ? 1 : 0))))
    return failure();
  SmallVector<int64_t> shape, shapeA, shapeB;
  if (mGrouped) {
    shape = {a.getDimSize(0), b.getDimSize(2)};
    shapeA = {a.getDimSize(0)};
    shapeB = {b.getDimSize(0), b.getDimSize(2)};
  } else {
    shape = {experts, a.getDimSize(0), b.getDimSize(1)};
    shapeA = {experts, a.getDimSize(0)};
    shapeB = {experts, b.getDimSize(1)};
  }
  if (failed(verifyShape(*this, "the result", getType(), shape,
                         mGrouped ? "[M, N]" : "[E, N, K]")) ||
      failed(verifyPacked(*this, "the result", getType())) ||
      failed(verifyWritable(*this, "the result", getType())) ||
      failed(verifyAddend(*this)))
    return failure();
  if (hasBlockScales(*this))
    return verifyBlockScales(*this);
  return verifyScales(*this, shapeA, mGrouped ? "[M]" : "[E, N]", shapeB,
                      mGrouped ? "[E, N]" : "[E, K]");
}

LogicalResult GroupedMatmulOp::reifyResultSizes(
    OpBuilder &builder, Location loc, GetDimFn getDim,
    SmallVectorImpl<SmallVector<OpFoldResult>> &sizes) {
  SizeBuilder size(builder, loc, getDim);
  SmallVector<OpFoldResult> &result = sizes.emplace_back();
  if (isMGrouped())
    result = {size.dim(getA(), 0), size.dim(getB(), 2)};
  else
    result = {size.dim(getOffsets(), 0), size.dim(getA(), 0),
              size.dim(getB(), 1)};
  return success();
}

void GroupedMatmulOp::getEqualSizes(SmallVectorImpl<EqualSizes> &pairs) {
  if (isMGrouped()) {
    pairs.push_back({getA(), 1, getB(), 1});
    pairs.push_back({getB(), 0, getOffsets(), 0});
  } else {
    pairs.push_back({getA(), 1, getB(), 0});
  }
  if (getAddend()) {
    if (isMGrouped()) {
      pairs.push_back({getAddend(), 0, getA(), 0});
      pairs.push_back({getAddend(), 1, getB(), 2});
    } else {
      pairs.push_back({getAddend(), 0, getOffsets(), 0});
      pairs.push_back({getAddend(), 1, getA(), 0});
      pairs.push_back({getAddend(), 2, getB(), 1});
    }
  }
  // Sizes of block scales follow from those of operands.
  if (!getScaleA() || hasBlockScales(*this))
    return;
  if (isMGrouped()) {
    pairs.push_back({getScaleA(), 0, getA(), 0});
  } else {
    pairs.push_back({getScaleA(), 0, getOffsets(), 0});
    pairs.push_back({getScaleA(), 1, getA(), 0});
  }
  if (!getScaleB())
    return;
  if (isMGrouped()) {
    pairs.push_back({getScaleB(), 0, getB(), 0});
    pairs.push_back({getScaleB(), 1, getB(), 2});
  } else {
    pairs.push_back({getScaleB(), 0, getOffsets(), 0});
    pairs.push_back({getScaleB(), 1, getB(), 1});
  }
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
