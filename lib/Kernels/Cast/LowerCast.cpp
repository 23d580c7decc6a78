//===- LowerCast.cpp - Casts by given scales to kernels -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/Cast.h"
#include "Kernels/Program/SegmentViews.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

static SmallVector<int64_t> getStaticSizes(ArrayRef<OpFoldResult> sizes) {
  return llvm::map_to_vector(sizes, getStaticSize);
}

/// Launches the kernel of a cast; `problem` has what the operation says.
static void launch(Operation *op, const SegmentViews &views,
                   ScaledCastProblem problem,
                   const SegmentSizes<OpFoldResult> &sizes, StringRef name,
                   ProgramLowering &lowering) {
  problem.jagged = views.offsets.has_value();
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.scaleAlignment = getBufferAlignment(views.scales);
  problem.outputAlignment = getBufferAlignment(views.output);
  problem.sizes = getKnownSizes(sizes);
  KernelLaunch launch{
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.outputType)},
      {static_cast<int64_t>(problem.scales), problem.tiledScales,
       problem.jagged, problem.inputAlignment, problem.scaleAlignment,
       problem.outputAlignment},
      countCastThreads(problem),
      {views.input.buffer, views.scales.buffer},
      listSizes(sizes)};
  if (views.offsets)
    launch.buffers.push_back(views.offsets->buffer);
  launch.buffers.push_back(views.output.buffer);
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  OpFoldResult tiles =
      countSegmentTiles(size, sizes, problem.jagged, getRowAlignment(problem));
  lowering.launchKernel(op->getLoc(), launch, tiles,
                        [&](KernelBuilder &b) { buildCast(b, problem); });
}

/// The types of a cast, of which the FP8 one must be the target's.
template <typename CastOp>
static FailureOr<ScaledCastProblem> getProblem(CastOp op,
                                               ProgramLowering &lowering) {
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  ScaledCastProblem problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.outputType = op.getType().getElementType();
  if (failed(problem.isToFP8()
                 ? lowering.requireFP8(op, "to", problem.outputType)
                 : lowering.requireFP8(op, "from", problem.inputType)))
    return failure();
  return problem;
}

template <typename CastOp>
static FailureOr<SegmentViews> getViews(CastOp op, ProgramLowering &lowering) {
  FailureOr<BufferView> output = lowering.createResult(op->getOpResult(0));
  if (failed(output))
    return failure();
  SegmentViews views{lowering.getView(op.getInput()),
                     lowering.getView(op.getScale()), *output, std::nullopt};
  if (op.getOffsets())
    views.offsets = lowering.getView(op.getOffsets());
  return views;
}

/// A scale for each slice.
template <typename CastOp>
static LogicalResult lowerSlices(CastOp op, CastScales scales, StringRef name,
                                 ProgramLowering &lowering) {
  FailureOr<ScaledCastProblem> problem = getProblem(op, lowering);
  if (failed(problem))
    return failure();
  problem->scales = scales;
  FailureOr<SegmentViews> views = getViews(op, lowering);
  if (failed(views))
    return failure();
  int64_t axis = op.getAxis();
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(axis, getStaticSizes(views->input.strides),
                         getStaticSizes(views->output.strides));
  if (!dims)
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(op.getType().getRank()) +
                " (expected at most 3; merge dimensions with fp8moe.reshape)");
  auto [segment, column] = *dims;
  OpBuilder builder = lowering.getBuilder();
  SegmentSizes<OpFoldResult> sizes =
      getSegmentSizes({segment, axis, column}, *views, builder);
  if (views->offsets) {
    sizes.scaleSegment = views->scales.strides[0];
    sizes.scaleLine = views->scales.strides[1];
  } else {
    // Scales lack the axis.
    if (segment)
      sizes.scaleSegment = views->scales.strides[*segment - (*segment > axis)];
    if (column)
      sizes.scaleLine = views->scales.strides[*column - (*column > axis)];
  }
  launch(op, *views, *problem, sizes, name, lowering);
  return success();
}

/// (X8): a scale for each block of 32. Groups divide rows, whether blocks lie
/// along them or not.
static LogicalResult lowerBlocks(MXDequantizeOp op, ProgramLowering &lowering) {
  FailureOr<ScaledCastProblem> problem = getProblem(op, lowering);
  if (failed(problem))
    return failure();
  FailureOr<SegmentViews> views = getViews(op, lowering);
  if (failed(views))
    return failure();
  int64_t axis = op.getAxis();
  bool areRows = !views->offsets || axis == 0;
  problem->scales = areRows ? CastScales::RowBlocks : CastScales::ColumnBlocks;
  problem->tiledScales = views->scales.strides.empty();
  launch(op, *views, *problem,
         getBlockSizes(axis, areRows, *views, lowering.getBuilder()),
         "mx_dequantize", lowering);
  return success();
}

static LogicalResult lowerCast(Operation *op, ProgramLowering &lowering) {
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return lowerSlices(quantize, CastScales::Columns, "quantize_by_scales",
                       lowering);
  if (auto blocks = dyn_cast<MXDequantizeOp>(op))
    return lowerBlocks(blocks, lowering);
  auto dequantize = cast<DequantizeOp>(op);
  bool inverts = dequantize.getDirection() == ScaleDirection::Quantize;
  return lowerSlices(
      dequantize, inverts ? CastScales::ColumnReciprocals : CastScales::Columns,
      "dequantize", lowering);
}

FP8MOE_DEFINE_OP_LOWERING(Cast,
                          "quantizations and dequantizations by given scales",
                          isAnyOf<QuantizeOp, DequantizeOp, MXDequantizeOp>,
                          lowerCast, /*takesTiledScales=*/true)
