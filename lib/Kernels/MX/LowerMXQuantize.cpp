//===- LowerMXQuantize.cpp - MX quantizations to kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/SegmentTiles.h"
#include "Kernels/Program/ProgramLowering.h"

#include "Kernels/MX/MXKernel.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Where the tensors of a quantization along one axis are; offsets only with
/// groups.
struct MXViews {
  BufferView input, output, scales;
  std::optional<BufferView> offsets;
};

/// The quantization along one axis.
struct MXAxis {
  MXViews views;
  MXSizes<OpFoldResult> sizes;
  MXQuantizeProblem problem;
};
} // namespace

static MXSizes<OpFoldResult> getSizes(MXQuantizeOp op, int64_t axis,
                                      const MXViews &views,
                                      OpBuilder &builder) {
  SmallVector<int64_t> others;
  for (int64_t dim : llvm::seq<int64_t>(op.getInput().getType().getRank()))
    if (dim != axis)
      others.push_back(dim);
  // The verifier takes ranks 2 and 3. Scales have the lines before the blocks.
  int64_t line = others.back(), scaleLine = others.size() - 1;
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  bool hasSegments = others.size() == 2;
  auto getSegment = [&](ArrayRef<OpFoldResult> of, OpFoldResult otherwise) {
    return hasSegments ? of[others.front()] : otherwise;
  };
  MXSizes<OpFoldResult> sizes;
  sizes.segments = views.offsets ? views.offsets->sizes.front()
                                 : getSegment(views.input.sizes, one);
  sizes.lines = views.input.sizes[line];
  sizes.elements = views.input.sizes[axis];
  sizes.inSegment = getSegment(views.input.strides, zero);
  sizes.inLine = views.input.strides[line];
  sizes.inElement = views.input.strides[axis];
  sizes.outSegment = getSegment(views.output.strides, zero);
  sizes.outLine = views.output.strides[line];
  sizes.outElement = views.output.strides[axis];
  // Tiles have no strides.
  bool isTiled = views.scales.strides.empty();
  sizes.scaleLine = isTiled ? zero : views.scales.strides[scaleLine];
  sizes.scaleSegment =
      isTiled || !hasSegments ? zero : views.scales.strides.front();
  return sizes;
}

static MXQuantizeProblem getProblem(MXQuantizeOp op, unsigned index,
                                    const MXViews &views,
                                    const MXSizes<OpFoldResult> &sizes) {
  MXQuantizeProblem problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.fp8Type = op.getData(index).getType().getElementType();
  problem.mode = op.getMode();
  problem.square = op.getSquare();
  problem.tiledScales = views.scales.strides.empty();
  if (views.offsets)
    problem.groups =
        op.getAxes()[index] == 0 ? MXGroups::Elements : MXGroups::Lines;
  // Groups divide rows.
  problem.linesAreRows = problem.groups != MXGroups::Elements;
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.outputAlignment = getBufferAlignment(views.output);
  problem.sizes = getKnownSizes(sizes);
  return problem;
}

/// Launches one kernel for axes that are quantized from one read.
static void launch(Location loc, ArrayRef<MXAxis> axes,
                   ProgramLowering &lowering) {
  const MXAxis &first = axes.front();
  KernelLaunch launch;
  launch.name = axes.size() > 1                  ? "mx_quantize_both"
                : readsAlongLines(first.problem) ? "mx_quantize_inner"
                                                 : "mx_quantize_outer";
  launch.threads = countMXThreads(first.problem);
  launch.buffers.push_back(first.views.input.buffer);
  if (first.views.offsets)
    launch.buffers.push_back(first.views.offsets->buffer);
  SmallVector<MXQuantizeProblem> problems;
  for (const auto &[views, sizes, problem] : axes) {
    launch.key.append(
        {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type)});
    launch.numbers.append(
        {static_cast<int64_t>(problem.mode), problem.tiledScales,
         static_cast<int64_t>(problem.groups), problem.linesAreRows,
         problem.square, problem.inputAlignment, problem.outputAlignment});
    launch.buffers.append({views.output.buffer, views.scales.buffer});
    llvm::append_range(launch.sizes, listSizes(sizes));
    problems.push_back(problem);
  }
  OpFoldResult rows = first.sizes.lines, columns = first.sizes.elements;
  if (!first.problem.linesAreRows)
    std::swap(rows, columns);
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, loc);
  OpFoldResult tiles =
      countSegmentTiles(size, first.sizes.segments, rows, columns,
                        /*jagged=*/first.problem.groups != MXGroups::None);
  lowering.launchKernel(loc, launch, tiles, [&](KernelBuilder &b) {
    buildMXQuantize(b, problems);
  });
}

/// Whether one kernel does both, the first one across the contiguous dimension
/// of the input.
static bool orderForOneKernel(MXQuantizeOp op, MutableArrayRef<MXAxis> axes) {
  if (!op.isReadOnce())
    return false;
  if (readsAlongLines(axes.front().problem))
    std::swap(axes.front(), axes.back());
  if (readsAlongLines(axes.front().problem))
    return false;
  axes.back().problem.linesAreRows = !axes.front().problem.linesAreRows;
  return true;
}

static LogicalResult lowerMXQuantize(Operation *operation,
                                     ProgramLowering &lowering) {
  auto op = cast<MXQuantizeOp>(operation);
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  OpBuilder builder = lowering.getBuilder();
  SmallVector<MXAxis, 2> axes;
  for (auto [i, axis] : llvm::enumerate(op.getAxes())) {
    if (failed(lowering.requireFP8(op, "to",
                                   op.getData(i).getType().getElementType())))
      return failure();
    FailureOr<BufferView> output =
        lowering.createResult(cast<OpResult>(op.getQuantized()[i]));
    FailureOr<BufferView> scales =
        lowering.createResult(cast<OpResult>(op.getScales()[i]));
    if (failed(output) || failed(scales))
      return failure();
    MXViews views{lowering.getView(op.getInput()), *output, *scales,
                  std::nullopt};
    if (op.getOffsets())
      views.offsets = lowering.getView(op.getOffsets());
    MXSizes<OpFoldResult> sizes = getSizes(op, axis, views, builder);
    axes.push_back({views, sizes, getProblem(op, i, views, sizes)});
  }
  if (orderForOneKernel(op, axes)) {
    launch(op.getLoc(), axes, lowering);
    return success();
  }
  for (const MXAxis &axis : axes)
    launch(op.getLoc(), axis, lowering);
  return success();
}

FP8MOE_DEFINE_OP_LOWERING(MX, "MX quantizations", isAnyOf<MXQuantizeOp>,
                          lowerMXQuantize, /*takesTiledScales=*/true)
