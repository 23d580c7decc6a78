//===- LowerQuantize.cpp - Dynamic quantizations --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramLowering.h"
#include "StreamedLaunch.h"

#include "fp8moe/Conversion/FP8MoEToGPU/SegmentedQuantize.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Support/DebugStringHelper.h"

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

static SmallVector<int64_t> getStaticSizes(ArrayRef<OpFoldResult> sizes) {
  return llvm::map_to_vector(sizes, getStaticSize);
}

static FailureOr<QuantizeSizes<OpFoldResult>>
getSizes(const Quantization &q, ProgramLowering &lowering) {
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(q.axis, getStaticSizes(q.input.strides),
                         getStaticSizes(q.output.strides));
  if (!dims)
    return lowering.reportUnsupported(
        q.op, "of a tensor of rank " + Twine(q.inputType.getRank()) +
                  " (expected at most 3; merge dimensions with "
                  "fp8moe.reshape)");
  auto [segment, column] = *dims;
  OpBuilder builder = lowering.getBuilder();
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  /// Scales lack the axis.
  auto getScaleStride = [&](std::optional<int64_t> dim) {
    return dim ? q.scales.strides[*dim - (*dim > q.axis)] : zero;
  };
  QuantizeSizes<OpFoldResult> sizes;
  sizes.segments = segment ? q.input.sizes[*segment] : one;
  sizes.reduced = q.input.sizes[q.axis];
  sizes.kept = column ? q.input.sizes[*column] : one;
  sizes.extent = zero;
  sizes.inSegment = segment ? q.input.strides[*segment] : zero;
  sizes.inReduced = q.input.strides[q.axis];
  sizes.inKept = column ? q.input.strides[*column] : zero;
  sizes.outSegment = segment ? q.output.strides[*segment] : zero;
  sizes.outReduced = q.output.strides[q.axis];
  sizes.outKept = column ? q.output.strides[*column] : zero;
  sizes.scaleSegment = getScaleStride(segment);
  sizes.scaleKept = getScaleStride(column);
  if (q.offsets) {
    // Groups take the place of segments, in the scales too.
    sizes.segments = q.offsets->sizes.front();
    if (getGroupPadding(q.resultType))
      sizes.extent = q.output.sizes[q.axis];
    sizes.scaleSegment = q.scales.strides[0];
    sizes.scaleKept = q.scales.strides[1];
  }
  return sizes;
}

/// How many units of work the schedule divides a quantization into.
static OpFoldResult getUnits(const QuantizeSchedule &schedule,
                             const QuantizeSizes<OpFoldResult> &sizes,
                             bool jagged, SizeBuilder &size) {
  OpFoldResult segments =
      jagged ? size.add(sizes.segments, size.constant(1)) : sizes.segments;
  if (schedule.kind == QuantizeSchedule::Slices)
    return size.ceilDiv(size.mul(segments, sizes.kept),
                        schedule.columnsPerBlock);
  return size.mul(segments, size.ceilDiv(sizes.kept, schedule.columnsPerBlock));
}

static SmallVector<QuantizeTileCost> rankTiles(const QuantizeProblem &problem,
                                               const TargetInfo &target) {
  QuantizeWork work;
  work.segments = problem.sizes.segments;
  work.rows = problem.sizes.reduced;
  work.columns = problem.sizes.kept;
  work.jagged = problem.jagged;
  work.inputBytes = problem.inputType.getIntOrFloatBitWidth() / 8;
  work.inputRowStride = problem.sizes.inReduced;
  work.inputColumnStride = problem.sizes.inKept;
  work.outputRowStride = problem.sizes.outReduced;
  work.outputColumnStride = problem.sizes.outKept;
  return rankQuantizeTiles(work, target);
}

/// The schedule with the tile that the operation names, or the one that tile
/// selection would choose.
static FailureOr<QuantizeSchedule> getSchedule(const QuantizeProblem &problem,
                                               Operation *op,
                                               QuantizeTileAttr tile,
                                               const TargetInfo &target) {
  SmallVector<QuantizeTileCost> tiles = rankTiles(problem, target);
  if (!tile)
    return chooseQuantizeTile(tiles).schedule;
  const QuantizeTileCost *chosen = requireQuantizeTile(op, tiles, tile, target);
  if (!chosen)
    return failure();
  return chosen->schedule;
}

/// The best schedule that takes every address and every pitch.
static QuantizeSchedule getGeneralSchedule(const QuantizeProblem &problem,
                                           const TargetInfo &target) {
  SmallVector<QuantizeTileCost> tiles = rankTiles(problem, target);
  llvm::erase_if(tiles, [](const QuantizeTileCost &entry) {
    return entry.schedule.method == TileSchedule::Streamed;
  });
  return chooseQuantizeTile(tiles).schedule;
}

static LogicalResult launchQuantize(const Quantization &q,
                                    QuantizeTileAttr tile,
                                    ProgramLowering &lowering) {
  FailureOr<QuantizeSizes<OpFoldResult>> sizes = getSizes(q, lowering);
  if (failed(sizes))
    return failure();
  const TargetHooks &hooks = lowering.getKernels().getHooks();
  QuantizeProblem problem;
  problem.inputType = q.inputType.getElementType();
  problem.fp8Type = q.resultType.getElementType();
  if (!hooks.supportsFP8(problem.fp8Type))
    return lowering.reportUnsupported(
        q.op, "to '" + debugString(problem.fp8Type) +
                  "' (the hardware has the other flavour; use !fp8moe.e4m3 or "
                  "!fp8moe.e5m2)");
  problem.powerOfTwo = q.rounding == ScaleRounding::Pow2;
  problem.jagged = q.offsets.has_value();
  if (GroupPaddingAttr padding = getGroupPadding(q.resultType))
    problem.outputPadding = padding.getPad();
  problem.inputAlignment = getBufferAlignment(q.input);
  problem.outputAlignment = getBufferAlignment(q.output);
  SmallVector<OpFoldResult> dynamicSizes;
  for (auto [from, to] : llvm::zip_equal(QuantizeSizes<OpFoldResult>::members(),
                                         QuantizeSizes<int64_t>::members())) {
    problem.sizes.*to = getStaticSize((*sizes).*from);
    dynamicSizes.push_back((*sizes).*from);
  }
  FailureOr<QuantizeSchedule> schedule =
      getSchedule(problem, q.op, tile, lowering.getTarget());
  if (failed(schedule))
    return failure();

  Value condition;
  if (schedule->method == TileSchedule::Streamed) {
    QuantizeBuffers buffers{q.input.buffer,
                            q.offsets ? Value(q.offsets->buffer) : Value(),
                            q.output.buffer, q.scales.buffer};
    condition = launchStreamedQuantize(q.op->getLoc(), problem, *sizes, buffers,
                                       lowering);
    if (matchPattern(condition, m_Zero()))
      return success();
    schedule = getGeneralSchedule(problem, lowering.getTarget());
  }

  OpBuilder builder = lowering.getBuilder();
  SmallVector<int64_t> numbers{problem.powerOfTwo,       problem.jagged,
                               problem.outputPadding,    problem.inputAlignment,
                               problem.outputAlignment,  schedule->threads,
                               schedule->columnsPerBlock};
  llvm::append_range(numbers, llvm::map_range(dynamicSizes, getStaticSize));
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      ("quantize_" + stringifyQuantizeSchedule(schedule->kind)).str(),
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        return buildSegmentedQuantize(q.op->getLoc(), module, name, problem,
                                      *schedule, hooks);
      });
  SmallVector<Value> buffers{q.input.buffer};
  if (q.offsets)
    buffers.push_back(q.offsets->buffer);
  buffers.append({q.output.buffer, q.scales.buffer});
  SizeBuilder size(builder, q.op->getLoc());
  lowering.createLaunch(q.op->getLoc(), kernel,
                        getUnits(*schedule, *sizes, problem.jagged, size),
                        schedule->threads, buffers, dynamicSizes, condition);
  return success();
}

/// One kernel for each axis. `op` has a quantized tensor and scales for each.
template <typename OpTy>
static LogicalResult lowerAxes(OpTy op, Value offsets,
                               ProgramLowering &lowering) {
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
    if (failed(launchQuantize(q, op.getTileAttr(), lowering)))
      return failure();
  }
  return success();
}

LogicalResult fp8moe::lowerDynamicQuantize(DynamicQuantizeOp op,
                                           ProgramLowering &lowering) {
  return lowerAxes(op, /*offsets=*/Value(), lowering);
}

LogicalResult fp8moe::lowerJaggedDynamicQuantize(JaggedDynamicQuantizeOp op,
                                                 ProgramLowering &lowering) {
  return lowerAxes(op, op.getOffsets(), lowering);
}
