//===- LowerDequantize.cpp - Dequantizations to kernels -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/SegmentTiles.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"

#include "fp8moe/Conversion/FP8MoEToGPU/Dequantize/Dequantize.h"
#include "fp8moe/Tuning/KernelProblem.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Where the tensors of a dequantization are; offsets only when jagged.
struct DequantizeViews {
  BufferView input, scales, output;
  std::optional<BufferView> offsets;
};
} // namespace

static SmallVector<int64_t> getStaticSizes(ArrayRef<OpFoldResult> sizes) {
  return llvm::map_to_vector(sizes, getStaticSize);
}

static FailureOr<DequantizeSizes<OpFoldResult>>
getSizes(DequantizeOp op, const DequantizeViews &views,
         ProgramLowering &lowering) {
  int64_t axis = op.getAxis();
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(axis, getStaticSizes(views.input.strides),
                         getStaticSizes(views.output.strides));
  if (!dims)
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(op.getType().getRank()) +
                " (expected at most 3; merge dimensions with fp8moe.reshape)");
  auto [segment, column] = *dims;
  OpBuilder builder = lowering.getBuilder();
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  auto get = [](ArrayRef<OpFoldResult> of, std::optional<int64_t> dim,
                OpFoldResult otherwise) { return dim ? of[*dim] : otherwise; };
  /// Scales lack the axis.
  auto getScaleStride = [&](std::optional<int64_t> dim) {
    return dim ? views.scales.strides[*dim - (*dim > axis)] : zero;
  };
  DequantizeSizes<OpFoldResult> sizes;
  sizes.segments = get(views.input.sizes, segment, one);
  sizes.rows = views.input.sizes[axis];
  sizes.columns = get(views.input.sizes, column, one);
  sizes.inSegment = get(views.input.strides, segment, zero);
  sizes.inRow = views.input.strides[axis];
  sizes.inColumn = get(views.input.strides, column, zero);
  sizes.outSegment = get(views.output.strides, segment, zero);
  sizes.outRow = views.output.strides[axis];
  sizes.outColumn = get(views.output.strides, column, zero);
  sizes.scaleSegment = getScaleStride(segment);
  sizes.scaleColumn = getScaleStride(column);
  if (views.offsets) {
    // Groups take the place of segments, in the scales too.
    sizes.segments = views.offsets->sizes.front();
    sizes.scaleSegment = views.scales.strides[0];
    sizes.scaleColumn = views.scales.strides[1];
  }
  return sizes;
}

static DequantizeProblem
getProblem(DequantizeOp op, const DequantizeViews &views,
           const DequantizeSizes<OpFoldResult> &sizes) {
  DequantizeProblem problem;
  problem.fp8Type = op.getInput().getType().getElementType();
  problem.outputType = op.getType().getElementType();
  problem.invertsScales = op.getDirection() == ScaleDirection::Quantize;
  problem.jagged = views.offsets.has_value();
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.scaleAlignment = getBufferAlignment(views.scales);
  problem.outputAlignment = getBufferAlignment(views.output);
  for (auto [from, to] :
       llvm::zip_equal(DequantizeSizes<OpFoldResult>::members(),
                       DequantizeSizes<int64_t>::members()))
    problem.sizes.*to = getStaticSize(sizes.*from);
  return problem;
}

static LogicalResult lowerDequantize(DequantizeOp op,
                                     ProgramLowering &lowering) {
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  Type fp8Type = op.getInput().getType().getElementType();
  if (failed(lowering.requireFP8(op, "from", fp8Type)))
    return failure();
  FailureOr<BufferView> output = lowering.createResult(op->getOpResult(0));
  if (failed(output))
    return failure();
  DequantizeViews views{lowering.getView(op.getInput()),
                        lowering.getView(op.getScale()), *output, std::nullopt};
  SmallVector<Value> buffers{views.input.buffer, views.scales.buffer};
  if (op.getOffsets()) {
    views.offsets = lowering.getView(op.getOffsets());
    buffers.push_back(views.offsets->buffer);
  }
  buffers.push_back(views.output.buffer);
  FailureOr<DequantizeSizes<OpFoldResult>> sizes =
      getSizes(op, views, lowering);
  if (failed(sizes))
    return failure();

  DequantizeProblem problem = getProblem(op, views, *sizes);
  SmallVector<int64_t> key{problem.invertsScales, problem.jagged,
                           problem.inputAlignment, problem.scaleAlignment,
                           problem.outputAlignment};
  SmallVector<OpFoldResult> arguments;
  for (auto member : DequantizeSizes<OpFoldResult>::members()) {
    arguments.push_back((*sizes).*member);
    key.push_back(getStaticSize(arguments.back()));
  }
  OpBuilder builder = lowering.getBuilder();
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "dequantize",
      {TypeAttr::get(fp8Type), TypeAttr::get(problem.outputType),
       builder.getDenseI64ArrayAttr(key)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildDequantize(op.getLoc(), module, name, problem, hooks);
      });
  SizeBuilder size(builder, op.getLoc());
  lowering.createLaunch(op.getLoc(), kernel,
                        countSegmentTiles(size, sizes->segments, sizes->rows,
                                          sizes->columns, problem.jagged),
                        kDequantizeThreads, buffers, arguments);
  return success();
}

namespace {
class DequantizeOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "dequantizations"; }
  bool matches(Operation *op) const override { return isa<DequantizeOp>(op); }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    return lowerDequantize(cast<DequantizeOp>(op), lowering);
  }
};
} // namespace

namespace mlir::fp8moe {
const OpLowering &getDequantizeOpLowering() {
  static const DequantizeOpLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
