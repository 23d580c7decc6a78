//===- LowerQuantize.cpp - Dynamic quantizations and scales ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LowerChoice.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Rows/LowerRows.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The buffers of a quantization, or of an operation that computes only its
/// scales.
struct QuantizeViews {
  BufferView input, scales;
  /// `output` is null where only scales are computed, `offsets` for groups that
  /// are not jagged.
  std::optional<BufferView> output, offsets;
};
} // namespace

/// Returns the operands of a quantization along `axis`. `known` is the problem
/// as far as types and attributes determine it.
static QuantizeOperands getOperands(AxisQuantizeProblem known, int64_t axis,
                                    const QuantizeDims &dims,
                                    const QuantizeViews &views,
                                    OpBuilder builder) {
  QuantizeTensors<OpFoldResult> tensors{
      builder.getIndexAttr(0), builder.getIndexAttr(1), views.input.sizes,
      views.input.strides,
      /*outputStrides=*/{},    views.scales.strides,    std::nullopt};
  QuantizeBuffers buffers{views.input.buffer, Value(), Value(),
                          views.scales.buffer};
  known.inputAlignment = getBufferAlignment(views.input);
  if (views.offsets) {
    known.jagged = true;
    tensors.groups = views.offsets->sizes.front();
    buffers.offsets = views.offsets->buffer;
  }
  if (views.output) {
    tensors.outputStrides = views.output->strides;
    buffers.output = views.output->buffer;
    known.outputAlignment = getBufferAlignment(*views.output);
  }
  QuantizeSizes<OpFoldResult> sizes = getQuantizeSizes(tensors, axis, dims);
  if (known.outputPadding > 1)
    sizes.extent = views.output->sizes[axis];
  known.sizes = getKnownSizes(sizes);
  return {known, sizes, buffers};
}

/// Returns the sizes that ranges are compared with; meanLength (index) is the
/// mean length of slices.
static RangeOperands createRangeOperands(const QuantizeOperands &operands,
                                         OpBuilder &builder, Location loc) {
  ImplicitLocOpBuilder b(loc, builder);
  const AxisQuantizeProblem &problem = operands.problem;
  HostSize rows(b, operands.sizes.reduction);
  HostSize segments(b, operands.sizes.segments);
  // No expression of HostSize, which would fold a known number of groups:
  // plans keep their form.
  if (problem.jagged)
    segments = HostSize(b, arith::MaxSIOp::create(b, segments.getValue(b),
                                                  HostSize(1).getValue(b))
                               .getResult());
  return {computeMeanLength(problem.jagged, rows, segments).getValue(b),
          operands.sizes.parallel,
          problem.inputType.getIntOrFloatBitWidth() / 8};
}

/// Launches the kernel of `choice` whose range holds, where `isNeeded` (null:
/// always).
static LogicalResult launchQuantize(Operation *op,
                                    const QuantizeOperands &operands,
                                    QuantizeKind kind, KernelChoiceAttr choice,
                                    Value isNeeded, ProgramLowering &lowering) {
  SmallVector<QuantizeInstance> instances;
  bool haveRanges = false;
  for (AlternativeAttr entry : choice.getEntries()) {
    instances.emplace_back(op, operands, entry.getTile(), kind, isNeeded);
    haveRanges |= static_cast<bool>(entry.getRange());
  }
  SmallVector<KernelAlternative> alternatives;
  for (auto [instance, entry] : llvm::zip_equal(instances, choice.getEntries()))
    alternatives.push_back({&instance, entry.getRange()});
  OpBuilder builder = lowering.getBuilder();
  RangeOperands ofRanges;
  if (haveRanges)
    ofRanges = createRangeOperands(operands, builder, op->getLoc());
  return lowerChoice(alternatives, ofRanges, lowering);
}

/// Launches a kernel for both axes where its range and `fallback` hold:
/// `columns` of segments, and whole `rows`. If the kernel does not fuse the
/// operation `source` (or null), that is launched before. `fallback` (i1, or
/// null for always) holds where earlier alternatives did not run. Returns it
/// for later ones.
static FailureOr<Value> launchBothAxes(Operation *op,
                                       const QuantizeOperands &columns,
                                       const QuantizeOperands &rows,
                                       AlternativeAttr alternative,
                                       RowOpInterface source, Value fallback,
                                       ProgramLowering &lowering) {
  BothAxesInstance instance(op, columns, rows, alternative.getTile());
  OpBuilder builder = lowering.getBuilder();
  Location loc = op->getLoc();
  Value when;
  if (RangeAttr range = alternative.getRange())
    when = createIsInRange(range, createRangeOperands(columns, builder, loc),
                           builder, loc);
  when = createBoth(builder, loc, when, fallback);
  if (source && !computesInput(instance.tile))
    launchRows(source, when, lowering);
  FailureOr<Value> isDone = lowering.getTable()
                                .findKernelLowering(instance.tile)
                                ->launch(instance, when, lowering);
  if (failed(isDone))
    return failure();
  return createBoth(builder, loc, fallback, createNot(builder, loc, *isDone));
}

/// Returns the operands along axis number `index`. An operation that computes
/// only scales is lowered like a quantization with output in the input's
/// layout.
static FailureOr<QuantizeOperands> createOperands(SliceOpInterface op,
                                                  size_t index, Type fp8Type,
                                                  ProgramLowering &lowering) {
  RankedTensorType inputType = op.getInput().getType(), dataType = inputType;
  QuantizeViews views{
      lowering.getView(op.getInput()), {}, std::nullopt, std::nullopt};
  AxisQuantizeProblem problem;
  problem.inputType = inputType.getElementType();
  problem.fp8Type = fp8Type;
  problem.powerOfTwo = op.getScaleRounding() == ScaleRounding::Pow2;
  problem.scalesOnly = op.getDataResults().empty();
  if (!problem.scalesOnly) {
    OpResult data = op.getDataResults()[index];
    FailureOr<BufferView> output = lowering.createResult(data);
    if (failed(output))
      return failure();
    views.output = *output;
    dataType = cast<RankedTensorType>(data.getType());
    if (GroupPaddingAttr padding = getGroupPadding(dataType))
      problem.outputPadding = padding.getPad();
  }
  FailureOr<BufferView> scales =
      lowering.createResult(op.getScaleResults()[index]);
  if (failed(scales))
    return failure();
  views.scales = *scales;
  // Only the first axis is jagged.
  if (op.getOffsets() && index == 0)
    views.offsets = lowering.getView(op.getOffsets());
  // Which dimension is which follows from types, as it did when tiles were
  // chosen; views may know more.
  int64_t axis = op.getSliceAxes()[index];
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(axis, StridedLayout::get(inputType)->strides,
                         StridedLayout::get(dataType)->strides);
  return getOperands(problem, axis, *dims, views, lowering.getBuilder());
}

/// Lowers an operation on slices to one launch, or to one for each axis.
/// `fp8Types` has a type for each axis.
static LogicalResult lowerSlices(SliceOpInterface op, TypeRange fp8Types,
                                 ProgramLowering &lowering) {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.empty())
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(op.getInput().getType().getRank()) +
                " (expected at most 3; merge dimensions with fp8moe.reshape)");
  FailureOr<KernelChoiceAttr> choice =
      requireChoice(cast<TiledOpInterface>(*op), lowering.getTarget());
  if (failed(choice))
    return failure();
  SmallVector<QuantizeOperands, 2> quantizations;
  for (auto [index, fp8Type] : llvm::enumerate(fp8Types)) {
    FailureOr<QuantizeOperands> operands =
        createOperands(op, index, fp8Type, lowering);
    if (failed(operands))
      return failure();
    quantizations.push_back(*operands);
  }
  // The operation that this one's kernel computes, for some tiles.
  auto source = op.getInput().getDefiningOp<RowOpInterface>();
  if (source && !isComputedByReaders(source))
    source = {};
  // The condition under which no kernel for both axes has run; null for always.
  Value fallback;
  for (AlternativeAttr alternative : choice->getEntries()) {
    if (!isBothAxesTile(alternative.getTile()))
      break;
    FailureOr<Value> notBoth =
        launchBothAxes(op, quantizations[0], quantizations[1], alternative,
                       source, fallback, lowering);
    if (failed(notBoth))
      return failure();
    fallback = *notBoth;
    if (isNever(fallback))
      return success();
  }
  if (source)
    launchRows(source, fallback, lowering);
  for (auto [index, operands] : llvm::enumerate(quantizations))
    if (failed(launchQuantize(op, operands, getQuantizeKind(works[index]),
                              getAxisChoice(*choice, index), fallback,
                              lowering)))
      return failure();
  return success();
}

static LogicalResult lowerQuantize(Operation *op, ProgramLowering &lowering) {
  auto slices = cast<SliceOpInterface>(op);
  SmallVector<Type> types;
  for (Value data : slices.getDataResults()) {
    types.push_back(getElementTypeOrSelf(data.getType()));
    if (failed(lowering.requireFP8(op, "to", types.back())))
      return failure();
  }
  return lowerSlices(slices, types, lowering);
}

static LogicalResult lowerScales(Operation *op, ProgramLowering &lowering) {
  Type fp8 =
      llvm::TypeSwitch<Operation *, Type>(op).Case<ScaleOp, JaggedScaleOp>(
          [](auto scale) { return scale.getFp8Type(); });
  // No tensor needs to have the FP8 type that a scale is for.
  if (isNeutralFp8Type(fp8))
    return op->emitError("'")
           << op->getName() << "' computes scales for the target-neutral type "
           << fp8 << "; run fp8moe-resolve-fp8-types first";
  return lowerSlices(cast<SliceOpInterface>(op), fp8, lowering);
}

FP8MOE_DEFINE_OP_LOWERING(Quantize, "dynamic quantizations",
                          isAnyOf<DynamicQuantizeOp, JaggedDynamicQuantizeOp>,
                          lowerQuantize)
FP8MOE_DEFINE_OP_LOWERING(Scale, "scales", isAnyOf<ScaleOp, JaggedScaleOp>,
                          lowerScales)
