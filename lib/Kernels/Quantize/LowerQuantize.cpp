//===- LowerQuantize.cpp - Dynamic quantizations --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/Conditions.h"
#include "Kernels/Program/LowerChoice.h"
#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Quantize/QuantizeInstance.h"

#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Rows/LowerRows.h"
#include "fp8moe/Dialect/FP8MoE/IR/FusedRows.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// One of the quantizations that an operation makes of its input.
struct Quantization {
  Operation *op;
  RankedTensorType inputType, resultType;
  int64_t axis;
  ScaleRounding rounding;
  /// Where its tensors are; offsets only when jagged.
  BufferView input, output, scales;
  std::optional<BufferView> offsets;
};
} // namespace

/// Which dimension is which follows from types, as it did when tiles were
/// chosen; views may know more.
static QuantizeSizes<OpFoldResult> getSizes(const Quantization &q,
                                            OpBuilder builder) {
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(q.axis, StridedLayout::get(q.inputType)->strides,
                         StridedLayout::get(q.resultType)->strides);
  QuantizeTensors<OpFoldResult> tensors{builder.getIndexAttr(0),
                                        builder.getIndexAttr(1),
                                        q.input.sizes,
                                        q.input.strides,
                                        q.output.strides,
                                        q.scales.strides,
                                        std::nullopt};
  if (q.offsets)
    tensors.groups = q.offsets->sizes.front();
  QuantizeSizes<OpFoldResult> sizes = getQuantizeSizes(tensors, q.axis, *dims);
  if (q.offsets && getGroupPadding(q.resultType))
    sizes.extent = q.output.sizes[q.axis];
  return sizes;
}

static AxisQuantizeProblem
getProblem(const Quantization &q, const QuantizeSizes<OpFoldResult> &sizes) {
  AxisQuantizeProblem problem;
  problem.inputType = q.inputType.getElementType();
  problem.fp8Type = q.resultType.getElementType();
  problem.powerOfTwo = q.rounding == ScaleRounding::Pow2;
  problem.jagged = q.offsets.has_value();
  if (GroupPaddingAttr padding = getGroupPadding(q.resultType))
    problem.outputPadding = padding.getPad();
  problem.inputAlignment = getBufferAlignment(q.input);
  problem.outputAlignment = getBufferAlignment(q.output);
  problem.sizes = getKnownSizes(sizes);
  return problem;
}

static QuantizeOperands getOperands(const Quantization &q,
                                    ProgramLowering &lowering) {
  QuantizeSizes<OpFoldResult> sizes = getSizes(q, lowering.getBuilder());
  QuantizeBuffers buffers{q.input.buffer,
                          q.offsets ? Value(q.offsets->buffer) : Value(),
                          q.output.buffer, q.scales.buffer};
  return {getProblem(q, sizes), sizes, buffers};
}

/// The mean length of slices, an index.
static Value createMeanLength(const QuantizeOperands &operands,
                              OpBuilder &builder, Location loc) {
  ImplicitLocOpBuilder b(loc, builder);
  HostSize rows(b, operands.sizes.reduction);
  HostSize segments(b, operands.sizes.segments);
  // No expression of HostSize, which would fold a known number of groups:
  // plans keep their form.
  if (operands.problem.jagged)
    segments = HostSize(b, arith::MaxSIOp::create(b, segments.getValue(b),
                                                  HostSize(1).getValue(b))
                               .getResult());
  return computeMeanLength(operands.problem.jagged, rows, segments).getValue(b);
}

static RangeOperands createRangeOperands(const QuantizeOperands &operands,
                                         OpBuilder &builder, Location loc) {
  return {createMeanLength(operands, builder, loc), operands.sizes.parallel,
          operands.problem.inputType.getIntOrFloatBitWidth() / 8};
}

/// Launches one of the kernels of `choice` where `isNeeded` (null: always).
static LogicalResult launchQuantize(const Quantization &q, QuantizeKind kind,
                                    KernelChoiceAttr choice, Value isNeeded,
                                    ProgramLowering &lowering) {
  QuantizeOperands operands = getOperands(q, lowering);
  SmallVector<QuantizeInstance> instances;
  bool haveRanges = false;
  for (AlternativeAttr entry : choice.getEntries()) {
    instances.emplace_back(q.op, operands, entry.getTile(), kind, isNeeded);
    haveRanges |= static_cast<bool>(entry.getRange());
  }
  SmallVector<KernelAlternative> alternatives;
  for (auto [instance, entry] : llvm::zip_equal(instances, choice.getEntries()))
    alternatives.push_back({&instance, entry.getRange()});
  OpBuilder builder = lowering.getBuilder();
  RangeOperands ofRanges;
  if (haveRanges)
    ofRanges = createRangeOperands(operands, builder, q.op->getLoc());
  return lowerChoice(alternatives, ofRanges, lowering);
}

/// Both axes at once where its range holds: `columns` of segments, and `rows`,
/// which are whole. `source` is null, or computes the input where the kernel
/// does not. `fallback` is null, or the condition under which what came before
/// has left the work. The result is that under which it is still to be done.
static FailureOr<Value> launchBothAxes(const Quantization &columns,
                                       const Quantization &rows,
                                       AlternativeAttr alternative,
                                       RowOpInterface source, Value fallback,
                                       ProgramLowering &lowering) {
  QuantizeOperands ofColumns = getOperands(columns, lowering),
                   ofRows = getOperands(rows, lowering);
  BothAxesInstance instance(columns.op, ofColumns, ofRows,
                            alternative.getTile());
  OpBuilder builder = lowering.getBuilder();
  Location loc = columns.op->getLoc();
  Value when;
  if (RangeAttr range = alternative.getRange())
    when = createIsInRange(range, createRangeOperands(ofColumns, builder, loc),
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

/// One launch, or one for each axis. `op` has a quantized tensor and scales for
/// each.
template <typename OpTy>
static LogicalResult lowerAxes(OpTy op, Value offsets,
                               ProgramLowering &lowering) {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.empty())
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(op.getInput().getType().getRank()) +
                " (expected at most 3; merge dimensions with "
                "fp8moe.reshape)");
  for (Value quantized : op.getQuantized())
    if (failed(lowering.requireFP8(op, "to",
                                   getElementTypeOrSelf(quantized.getType()))))
      return failure();
  FailureOr<KernelChoiceAttr> choice = requireChoice(op, lowering.getTarget());
  if (failed(choice))
    return failure();
  SmallVector<Quantization, 2> quantizations;
  for (auto [index, axis] : llvm::enumerate(op.getAxes())) {
    auto quantized = cast<OpResult>(op.getQuantized()[index]);
    auto scales = cast<OpResult>(op.getScales()[index]);
    FailureOr<BufferView> output = lowering.createResult(quantized);
    FailureOr<BufferView> scaleView = lowering.createResult(scales);
    if (failed(output) || failed(scaleView))
      return failure();
    Quantization q{op,
                   op.getInput().getType(),
                   cast<RankedTensorType>(quantized.getType()),
                   axis,
                   op.getRounding(),
                   lowering.getView(op.getInput()),
                   *output,
                   *scaleView,
                   std::nullopt};
    // Only the first axis is jagged.
    if (offsets && index == 0)
      q.offsets = lowering.getView(offsets);
    quantizations.push_back(q);
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
        launchBothAxes(quantizations[0], quantizations[1], alternative, source,
                       fallback, lowering);
    if (failed(notBoth))
      return failure();
    fallback = *notBoth;
    if (isNever(fallback))
      return success();
  }
  if (source)
    launchRows(source, fallback, lowering);
  for (auto [index, q] : llvm::enumerate(quantizations))
    if (failed(launchQuantize(q, getQuantizeKind(works[index]),
                              getAxisChoice(*choice, index), fallback,
                              lowering)))
      return failure();
  return success();
}

namespace {
class QuantizeOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "dynamic quantizations"; }
  bool matches(Operation *op) const override {
    return isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    if (auto jagged = dyn_cast<JaggedDynamicQuantizeOp>(op))
      return lowerAxes(jagged, jagged.getOffsets(), lowering);
    return lowerAxes(cast<DynamicQuantizeOp>(op), /*offsets=*/Value(),
                     lowering);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(OpLowering, QuantizeOpLowering)
