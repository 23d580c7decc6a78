//===- LowerQuantize.cpp - Dynamic quantizations and scales ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LowerChoice.h"
#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Quantize/QuantizeInstance.h"

#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Rows/LowerRows.h"
#include "fp8moe/Dialect/FP8MoE/IR/FusedRows.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The tensors of a quantization, or of the scales of one.
struct QuantizeViews {
  BufferView input, scales;
  /// Null where only scales are wanted, and where groups are not jagged.
  std::optional<BufferView> output, offsets;
};
} // namespace

/// `known` is what types and attributes say of the problem.
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

/// The mean length of slices decides between kernels; it is an index.
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

/// Launches one of the kernels of `choice` where `isNeeded` (null: always).
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

/// Both axes at once where its range holds: `columns` of segments, and `rows`,
/// which are whole. `source` is null, or computes the input where the kernel
/// does not. `fallback` is null, or the condition under which what came before
/// has left the work. The result is that under which it is still to be done.
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

/// The end of an error at an operation with too many dimensions.
static constexpr StringLiteral kMergeDimensions =
    " (expected at most 3; merge dimensions with fp8moe.reshape)";

/// One launch, or one for each axis. `op` has a quantized tensor and scales for
/// each.
template <typename OpTy>
static LogicalResult lowerAxes(OpTy op, ProgramLowering &lowering) {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.empty())
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(op.getInput().getType().getRank()) +
                kMergeDimensions);
  for (Value quantized : op.getQuantized())
    if (failed(lowering.requireFP8(op, "to",
                                   getElementTypeOrSelf(quantized.getType()))))
      return failure();
  FailureOr<KernelChoiceAttr> choice = requireChoice(op, lowering.getTarget());
  if (failed(choice))
    return failure();
  SmallVector<QuantizeOperands, 2> quantizations;
  RankedTensorType inputType = op.getInput().getType();
  for (auto [index, axis] : llvm::enumerate(op.getAxes())) {
    auto quantized = cast<OpResult>(op.getQuantized()[index]);
    auto type = cast<RankedTensorType>(quantized.getType());
    FailureOr<BufferView> output = lowering.createResult(quantized);
    FailureOr<BufferView> scales =
        lowering.createResult(cast<OpResult>(op.getScales()[index]));
    if (failed(output) || failed(scales))
      return failure();
    QuantizeViews views{lowering.getView(op.getInput()), *scales, *output,
                        std::nullopt};
    // Only the first axis is jagged.
    if (op.getOffsets() && index == 0)
      views.offsets = lowering.getView(op.getOffsets());
    AxisQuantizeProblem problem;
    problem.inputType = inputType.getElementType();
    problem.fp8Type = type.getElementType();
    problem.powerOfTwo = op.getRounding() == ScaleRounding::Pow2;
    if (GroupPaddingAttr padding = getGroupPadding(type))
      problem.outputPadding = padding.getPad();
    // Which dimension is which follows from types, as it did when tiles were
    // chosen; views may know more.
    std::optional<QuantizeDims> dims =
        assignQuantizeDims(axis, StridedLayout::get(inputType)->strides,
                           StridedLayout::get(type)->strides);
    quantizations.push_back(
        getOperands(problem, axis, *dims, views, lowering.getBuilder()));
  }
  // The operation that this one's kernel computes, for some tiles.
  auto source = op.getInput().template getDefiningOp<RowOpInterface>();
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

/// Scales are those of a quantization whose data would lie like the input.
template <typename OpTy>
static LogicalResult lowerScale(OpTy op, ProgramLowering &lowering) {
  // No tensor needs to have the FP8 type that a scale is for.
  if (isNeutralFp8Type(op.getFp8Type()))
    return op.emitError("'")
           << op->getName() << "' computes scales for the target-neutral type "
           << op.getFp8Type() << "; run fp8moe-resolve-fp8-types first";
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  FailureOr<BufferView> scales = lowering.createResult(op->getOpResult(0));
  if (failed(scales))
    return failure();
  QuantizeViews views{lowering.getView(op.getInput()), *scales, std::nullopt,
                      std::nullopt};
  if (op.getOffsets())
    views.offsets = lowering.getView(op.getOffsets());
  SmallVector<int64_t> strides =
      llvm::map_to_vector(views.input.strides, getStaticSize);
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(op.getAxis(), strides, strides);
  if (!dims)
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(strides.size()) + kMergeDimensions);
  FailureOr<KernelChoiceAttr> choice = requireChoice(op, lowering.getTarget());
  if (failed(choice))
    return failure();
  AxisQuantizeProblem problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.fp8Type = op.getFp8Type();
  problem.powerOfTwo = op.getRounding() == ScaleRounding::Pow2;
  problem.scalesOnly = true;
  QuantizeOperands operands =
      getOperands(problem, op.getAxis(), *dims, views, lowering.getBuilder());
  return launchQuantize(op, operands,
                        getQuantizeKind(getQuantizeWorks(op).front()), *choice,
                        /*isNeeded=*/Value(), lowering);
}

static LogicalResult lowerQuantize(Operation *op, ProgramLowering &lowering) {
  if (auto jagged = dyn_cast<JaggedDynamicQuantizeOp>(op))
    return lowerAxes(jagged, lowering);
  return lowerAxes(cast<DynamicQuantizeOp>(op), lowering);
}

static LogicalResult lowerScales(Operation *op, ProgramLowering &lowering) {
  if (auto jagged = dyn_cast<JaggedScaleOp>(op))
    return lowerScale(jagged, lowering);
  return lowerScale(cast<ScaleOp>(op), lowering);
}

FP8MOE_DEFINE_OP_LOWERING(Quantize, "dynamic quantizations",
                          isAnyOf<DynamicQuantizeOp, JaggedDynamicQuantizeOp>,
                          lowerQuantize)
FP8MOE_DEFINE_OP_LOWERING(Scale, "scales", isAnyOf<ScaleOp, JaggedScaleOp>,
                          lowerScales)
