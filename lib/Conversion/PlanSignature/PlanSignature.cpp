//===- PlanSignature.cpp - A function seen from its program ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/PlanSignature.h"

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "fp8moe/Support/DataType.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value mlir::fp8moe::materializeSize(OpBuilder &builder, Location loc,
                                    OpFoldResult size) {
  return getValueOrCreateConstantIndexOp(builder, loc, size);
}

OpBuilder PlanSignature::getBuilder() {
  return OpBuilder::atBlockEnd(program.getBodyBlock());
}

/// An error at a function that no program can be made of.
static InFlightDiagnostic refuse(func::FuncOp func) {
  return func.emitError("cannot make a program of '")
         << func.getName() << "': ";
}

/// The name of an argument's or result's buffer.
static std::string getBufferName(DictionaryAttr attrs, StringRef defaultPrefix,
                                 unsigned index) {
  if (attrs)
    if (auto name = attrs.getAs<StringAttr>(FP8MoEDialect::kNameAttrName))
      return name.getValue().str();
  return (defaultPrefix + Twine(index)).str();
}

/// Checks that a value crossing the program's border is a tensor of resolved
/// type.
static FailureOr<RankedTensorType>
checkBorderType(func::FuncOp func, Type type, StringRef what, unsigned index) {
  auto fail = [&]() -> InFlightDiagnostic {
    return refuse(func) << what << " #" << index;
  };
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return fail() << " must be a ranked tensor, found " << type
                  << (type.isIntOrIndexOrFloat()
                          ? "; pass a tensor of one element, "
                            "and on the CPU read it by "
                            "tensor.extract"
                          : "");
  Type element = tensor.getElementType();
  if (isNeutralFp8Type(element))
    return fail() << " still has the target-neutral element type " << element
                  << "; run fp8moe-resolve-fp8-types first";
  if (!plan::getManifestDtype(element))
    return fail() << " has the element type " << element
                  << ", which an artifact cannot exchange with its caller";
  if (tensor.getRank() > ::fp8moe::support::kMaxRank)
    return fail() << " has " << tensor.getRank()
                  << " dimensions, and an artifact exchanges at most "
                  << ::fp8moe::support::kMaxRank
                  << " with its caller; merge some by fp8moe.reshape";
  if (!hasCountableBytes(tensor))
    return fail() << " of type " << type
                  << " has more bytes than 64 bits count";
  return tensor;
}

/// A size or stride of a buffer, which the host computes if it is not known.
template <typename ExtentOp>
static OpFoldResult getExtent(OpBuilder &builder, Value buffer, int64_t dim,
                              int64_t known) {
  if (!ShapedType::isDynamic(known))
    return builder.getIndexAttr(known);
  return ExtentOp::create(builder, buffer.getLoc(), builder.getIndexType(),
                          buffer, dim)
      .getResult();
}

LogicalResult PlanSignature::addInputs(func::FuncOp func) {
  OpBuilder builder = getBuilder();
  for (BlockArgument arg : func.getArguments()) {
    unsigned index = arg.getArgNumber();
    FailureOr<RankedTensorType> type =
        checkBorderType(func, arg.getType(), "argument", index);
    if (failed(type))
      return failure();
    std::optional<StridedLayout> layout = StridedLayout::get(*type);
    if (!layout && !type->hasStaticShape())
      return refuse(func)
             << "argument #" << index << " of type " << *type
             << " has blocked scales, whose shape does not follow from their "
                "bytes; give it a static shape";
    Location loc = arg.getLoc();
    auto input = plan::InputOp::create(
        builder, loc, getBufferType(*type),
        getBufferName(func.getArgAttrDict(index), "arg", index),
        getBaseAlignment(*type));
    BufferView view;
    view.buffer = cast<TypedValue<MemRefType>>(input.getBuffer());
    for (int64_t dim = 0; dim < type->getRank(); ++dim) {
      view.sizes.push_back(getExtent<plan::DimOp>(builder, view.buffer, dim,
                                                  type->getDimSize(dim)));
      if (layout)
        view.strides.push_back(getExtent<plan::StrideOp>(
            builder, view.buffer, dim, layout->strides[dim]));
    }
    requireLayout(input.getBufferName(), *type, view);
    sizes[arg] = view.sizes;
    inputs.push_back(std::move(view));
  }
  return success();
}

void PlanSignature::require(arith::CmpIPredicate predicate, OpFoldResult a,
                            OpFoldResult b, const Twine &message,
                            Location loc) {
  std::optional<int64_t> knownA = getConstantIntValue(a);
  std::optional<int64_t> knownB = getConstantIntValue(b);
  if (a == b || (knownA && knownB &&
                 arith::applyCmpPredicate(predicate, APInt(64, *knownA, true),
                                          APInt(64, *knownB, true))))
    return;
  OpBuilder builder = getBuilder();
  Value condition = arith::CmpIOp::create(builder, loc, predicate,
                                          materializeSize(builder, loc, a),
                                          materializeSize(builder, loc, b));
  plan::RequireOp::create(builder, loc, condition,
                          builder.getStringAttr(message));
}

void PlanSignature::requireLayout(StringRef name, RankedTensorType type,
                                  const BufferView &view) {
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  if (!layout)
    return;
  OpBuilder builder = getBuilder();
  Location loc = view.buffer.getLoc();
  SizeBuilder size(builder, loc);
  if (layout->dense &&
      isa<StridedLayoutAttr>(view.buffer.getType().getLayout()))
    for (auto [dim, strides] : llvm::enumerate(llvm::zip_equal(
             view.strides, size.denseStrides(type, view.sizes))))
      require(arith::CmpIPredicate::eq, std::get<0>(strides),
              std::get<1>(strides),
              "'" + name + "' must be dense: stride " + Twine(dim) +
                  " must be the product of the sizes inside it",
              loc);
  int64_t elementBytes = getElementBytes(type.getElementType()).value_or(1);
  if (layout->align <= elementBytes)
    return;
  int64_t elements = layout->align / elementBytes;
  for (int64_t dim : ArrayRef(layout->order).drop_back())
    if (ShapedType::isDynamic(layout->strides[dim]))
      require(arith::CmpIPredicate::eq, size.rem(view.strides[dim], elements),
              size.constant(0),
              "'" + name + "' must be aligned: stride " + Twine(dim) +
                  " must be a multiple of " + Twine(layout->align) + " bytes",
              loc);
}

static PermutedView skipTransposes(Value value) {
  return skipPermutations(value, [](Operation *) { return false; });
}

/// Whether, sizes and transposes aside, `op` alone reads `value`, and once.
static bool isOnlyReadBy(Value value, Operation *op) {
  SmallVector<OpOperand *> readers;
  for (OpOperand &use : value.getUses())
    if (!isa<tensor::DimOp>(use.getOwner()))
      readers.push_back(&use);
  if (readers.size() != 1)
    return false;
  Operation *reader = readers.front()->getOwner();
  return reader == op ||
         (isa<TransposeOp>(reader) && isOnlyReadBy(reader->getResult(0), op));
}

/// The argument whose memory a returned tensor may have, or null: nothing
/// happens to it but that a matmul adds each of its elements to the element of
/// the result at the same place (G6).
static BlockArgument findOverwritten(const OpOperand &returned) {
  Operation *terminator = returned.getOwner();
  PermutedView result = skipTransposes(returned.get());
  auto matmul = result.root.getDefiningOp<MatmulOpInterface>();
  if (!matmul || matmul->getBlock() != terminator->getBlock() ||
      !matmul.getAddend())
    return {};
  PermutedView addend = skipTransposes(matmul.getAddend());
  auto argument = dyn_cast<BlockArgument>(addend.root);
  if (!argument || argument.getOwner() != terminator->getBlock() ||
      argument.getType() != returned.get().getType() ||
      !llvm::is_sorted(
          composePermutations(addend.permutation, result.permutation)))
    return {};
  // A result that is returned twice is copied once.
  bool isReturnedOnce =
      llvm::count_if(terminator->getOperands(), [&](Value value) {
        return isa<RankedTensorType>(value.getType()) &&
               skipTransposes(value).root == result.root;
      }) == 1;
  return isOnlyReadBy(argument, matmul) && isReturnedOnce ? argument
                                                          : BlockArgument();
}

LogicalResult PlanSignature::addOutputs(func::FuncOp func) {
  Operation *terminator = func.front().getTerminator();
  OpBuilder builder = getBuilder();
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    FailureOr<RankedTensorType> type =
        checkBorderType(func, operand.get().getType(), "result", index);
    if (failed(type))
      return failure();
    FailureOr<SmallVector<OpFoldResult>> shape =
        getSizes(operand.get(), terminator);
    if (failed(shape))
      return failure();
    Location loc = terminator->getLoc();
    SizeBuilder size(builder, loc);
    BufferView view;
    view.sizes = *shape;
    std::optional<StridedLayout> layout = StridedLayout::get(*type);
    if (layout && !layout->dense &&
        llvm::is_contained(layout->strides, ShapedType::kDynamic))
      return terminator->emitError(
                 "cannot choose the unknown strides of result #")
             << index << " of type " << *type
             << "; give all strides, or leave them out for dense ones";
    if (layout)
      view.strides = layout->dense ? size.denseStrides(*type, *shape)
                                   : getAsIndexOpFoldResult(func.getContext(),
                                                            layout->strides);

    MemRefType bufferType = getBufferType(*type);
    auto dynamicOnly = [&](ArrayRef<OpFoldResult> values,
                           ArrayRef<int64_t> known) {
      SmallVector<Value> operands;
      for (auto [value, isStatic] : llvm::zip_equal(values, known))
        if (ShapedType::isDynamic(isStatic))
          operands.push_back(materializeSize(builder, loc, value));
      return operands;
    };
    SmallVector<Value> dynamicSizes =
        dynamicOnly(size.bufferSizes(*type, view.sizes), bufferType.getShape());
    SmallVector<Value> dynamicStrides;
    if (auto strided = dyn_cast<StridedLayoutAttr>(bufferType.getLayout()))
      dynamicStrides = dynamicOnly(view.strides, strided.getStrides());
    BlockArgument overwritten = findOverwritten(operand);
    auto output = plan::OutputOp::create(
        builder, loc, bufferType,
        builder.getStringAttr(
            getBufferName(func.getResultAttrDict(index), "result", index)),
        overwritten ? inputs[overwritten.getArgNumber()].buffer : Value(),
        dynamicSizes, dynamicStrides, getBaseAlignment(*type));
    view.buffer = cast<TypedValue<MemRefType>>(output.getBuffer());
    outputs.push_back(std::move(view));
  }
  return success();
}

/// Names of buffers are the keys of the caller's tensors.
static LogicalResult checkUniqueNames(func::FuncOp func) {
  llvm::StringSet<> names;
  auto check = [&](DictionaryAttr attrs, StringRef prefix,
                   unsigned index) -> LogicalResult {
    std::string name = getBufferName(attrs, prefix, index);
    if (names.insert(name).second)
      return success();
    return refuse(func) << "two buffers are named '" << name
                        << "'; give each argument and result its own '"
                        << FP8MoEDialect::kNameAttrName << "'";
  };
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (failed(check(func.getArgAttrDict(i), "arg", i)))
      return failure();
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (failed(check(func.getResultAttrDict(i), "result", i)))
      return failure();
  return success();
}

FailureOr<PlanSignature> PlanSignature::create(func::FuncOp func,
                                               StringRef name) {
  if (func.isExternal())
    return refuse(func) << "it has no body";
  if (!llvm::json::isUTF8(name) || name.contains('\0'))
    return refuse(func)
           << "a manifest holds names in UTF-8 without null characters; "
              "rename it";
  if (!func.getBody().hasOneBlock())
    return refuse(func)
           << "expects one block, use scf operations for control flow";
  if (failed(checkUniqueNames(func)))
    return failure();
  PlanSignature signature;
  OpBuilder builder(func);
  signature.program = plan::ProgramOp::create(builder, func.getLoc(), name);
  if (failed(signature.addInputs(func)))
    return failure();
  // Operations in the regions of others are checked as if they always ran.
  WalkResult walk =
      func.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
        return WalkResult(failure(failed(signature.computeSizes(*op)) ||
                                  failed(signature.requireSizes(*op))));
      });
  if (walk.wasInterrupted())
    return failure();
  if (failed(signature.addOutputs(func)))
    return failure();
  return signature;
}
