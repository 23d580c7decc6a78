//===- LowerMXQuantize.cpp - MX quantizations to kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXKernel.h"
#include "Kernels/Program/SegmentViews.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The quantization along one axis.
struct MXAxis {
  int64_t axis;
  SegmentViews views;
  SegmentSizes<OpFoldResult> sizes;
  MXQuantizeProblem problem;
};
} // namespace

/// Makes lines the rows, or the columns.
static void setLines(MXAxis &axis, bool areRows, OpBuilder builder) {
  axis.sizes = getBlockSizes(axis.axis, !areRows, axis.views, builder);
  axis.problem.linesAreRows = areRows;
  axis.problem.sizes = getKnownSizes(axis.sizes);
}

static MXAxis getAxis(MXQuantizeOp op, unsigned index,
                      const SegmentViews &views, OpBuilder builder) {
  MXAxis axis{op.getAxes()[index], views, {}, {}};
  MXQuantizeProblem &problem = axis.problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.fp8Type = op.getData(index).getType().getElementType();
  problem.mode = op.getMode();
  problem.square = op.getSquare();
  problem.tiledScales = views.scales.strides.empty();
  problem.jagged = views.offsets.has_value();
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.outputAlignment = getBufferAlignment(views.output);
  // Groups divide rows.
  setLines(axis, !problem.jagged || axis.axis != 0, builder);
  return axis;
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
  for (const auto &[axis, views, sizes, problem] : axes) {
    launch.key.append(
        {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type)});
    launch.numbers.append({static_cast<int64_t>(problem.mode),
                           problem.tiledScales, problem.jagged,
                           problem.linesAreRows, problem.square,
                           problem.inputAlignment, problem.outputAlignment});
    launch.buffers.append({views.output.buffer, views.scales.buffer});
    llvm::append_range(launch.sizes, listSizes(sizes));
    problems.push_back(problem);
  }
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, loc);
  OpFoldResult tiles =
      countSegmentTiles(size, first.sizes, first.problem.jagged);
  lowering.launchKernel(loc, launch, tiles, [&](KernelBuilder &b) {
    buildMXQuantize(b, problems);
  });
}

/// Whether one kernel does both, the first one across the contiguous dimension
/// of the input.
static bool orderForOneKernel(MXQuantizeOp op, MutableArrayRef<MXAxis> axes,
                              OpBuilder builder) {
  if (!op.isReadOnce())
    return false;
  if (readsAlongLines(axes.front().problem))
    std::swap(axes.front(), axes.back());
  if (readsAlongLines(axes.front().problem))
    return false;
  setLines(axes.back(), !axes.front().problem.linesAreRows, builder);
  return true;
}

static LogicalResult lowerMXQuantize(Operation *operation,
                                     ProgramLowering &lowering) {
  auto op = cast<MXQuantizeOp>(operation);
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  OpBuilder builder = lowering.getBuilder();
  SmallVector<MXAxis, 2> axes;
  for (unsigned i : llvm::seq(op.getAxes().size())) {
    if (failed(lowering.requireFP8(op, "to",
                                   op.getData(i).getType().getElementType())))
      return failure();
    FailureOr<BufferView> output =
        lowering.createResult(cast<OpResult>(op.getQuantized()[i]));
    FailureOr<BufferView> scales =
        lowering.createResult(cast<OpResult>(op.getScales()[i]));
    if (failed(output) || failed(scales))
      return failure();
    SegmentViews views{lowering.getView(op.getInput()), *scales, *output,
                       std::nullopt};
    if (op.getOffsets())
      views.offsets = lowering.getView(op.getOffsets());
    axes.push_back(getAxis(op, i, views, builder));
  }
  if (orderForOneKernel(op, axes, builder)) {
    launch(op.getLoc(), axes, lowering);
    return success();
  }
  for (const MXAxis &axis : axes)
    launch(op.getLoc(), axis, lowering);
  return success();
}

FP8MOE_DEFINE_OP_LOWERING(MX, "MX quantizations", isAnyOf<MXQuantizeOp>,
                          lowerMXQuantize, /*takesTiledScales=*/true)
