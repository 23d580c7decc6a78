//===- Launch.cpp - Quantizations with a copy -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Program/ProgramLowering.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/QuantizeCopy/Kernel.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Tuning/KernelChoice.h"
#include "fp8moe/Tuning/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Where the tensors are; offsets only when groups of the copy are padded.
struct QuantizeCopyViews {
  BufferView input, data, copy, scales;
  std::optional<BufferView> offsets;
};

class QuantizeCopyLaunch {
public:
  QuantizeCopyLaunch(DynamicQuantizeCopyOp op, const QuantizeCopyViews &views,
                     ProgramLowering &lowering)
      : op(op), views(views), lowering(lowering),
        builder(lowering.getBuilder()), size(builder, op.getLoc()),
        work(QuantizeCopyWork::get(op)), dims(*work.getDims()),
        tile(*QuantizeCopyTile::get(
            cast<QuantizeCopyTileAttr>(op.getTilesAttr().getFirst().getTile()),
            work, lowering.getTarget())) {}

  void launch();

private:
  QuantizeTensors<OpFoldResult> getTensors(const BufferView &output) {
    return {builder.getIndexAttr(0),
            builder.getIndexAttr(1),
            views.input.sizes,
            views.input.strides,
            output.strides,
            {},
            std::nullopt};
  }
  QuantizeSizes<OpFoldResult> getLineSizes();
  QuantizeSizes<OpFoldResult> getCopySizes();
  AxisQuantizeProblem getProblem(const QuantizeSizes<OpFoldResult> &sizes,
                                 const BufferView &output);
  OpFoldResult countTiles(const QuantizeSizes<OpFoldResult> &ofCopy);

  DynamicQuantizeCopyOp op;
  const QuantizeCopyViews &views;
  ProgramLowering &lowering;
  OpBuilder builder;
  SizeBuilder size;
  QuantizeCopyWork work;
  QuantizeCopyDims dims;
  QuantizeCopyTile tile;
};
} // namespace

/// Lines are the slices of a quantization along the axis.
QuantizeSizes<OpFoldResult> QuantizeCopyLaunch::getLineSizes() {
  QuantizeTensors<OpFoldResult> tensors = getTensors(views.data);
  tensors.scaleStrides = views.scales.strides;
  return getQuantizeSizes(tensors, work.axis, {dims.segment, dims.line});
}

QuantizeSizes<OpFoldResult> QuantizeCopyLaunch::getCopySizes() {
  QuantizeTensors<OpFoldResult> tensors = getTensors(views.copy);
  if (views.offsets)
    tensors.groups = views.offsets->sizes.front();
  QuantizeSizes<OpFoldResult> sizes =
      getQuantizeSizes(tensors, dims.line, {dims.segment, work.axis});
  if (views.offsets)
    sizes.extent = views.copy.sizes[dims.line];
  return sizes;
}

AxisQuantizeProblem
QuantizeCopyLaunch::getProblem(const QuantizeSizes<OpFoldResult> &sizes,
                               const BufferView &output) {
  AxisQuantizeProblem problem;
  problem.inputType = work.input.getElementType();
  problem.fp8Type = work.data.getElementType();
  problem.powerOfTwo = op.getRounding() == ScaleRounding::Pow2;
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.outputAlignment = getBufferAlignment(output);
  problem.sizes = getKnownSizes(sizes);
  return problem;
}

/// Behind padded groups there is room for all lines of none: the extent has
/// room for as many lines as there are, and for each group's padding.
OpFoldResult
QuantizeCopyLaunch::countTiles(const QuantizeSizes<OpFoldResult> &ofCopy) {
  if (views.offsets)
    return size.ceilDiv(ofCopy.extent, tile.lines);
  return size.mul(ofCopy.segments, size.ceilDiv(ofCopy.reduction, tile.lines));
}

void QuantizeCopyLaunch::launch() {
  QuantizeSizes<OpFoldResult> ofLines = getLineSizes(), ofCopy = getCopySizes();
  AxisQuantizeProblem lines = getProblem(ofLines, views.data),
                      copy = getProblem(ofCopy, views.copy);
  copy.jagged = views.offsets.has_value();
  if (copy.jagged)
    copy.outputPadding = work.copyLayout.groups.getPad();

  SmallVector<int64_t> numbers{lines.powerOfTwo,     copy.outputPadding,
                               lines.inputAlignment, lines.outputAlignment,
                               copy.outputAlignment, tile.lines,
                               tile.threads,         tile.cluster};
  SmallVector<Value> operands{views.input.buffer, views.data.buffer,
                              views.scales.buffer, views.input.buffer};
  if (copy.jagged)
    operands.push_back(views.offsets->buffer);
  operands.append({views.copy.buffer, views.scales.buffer});
  auto getIndex = [&](OpFoldResult value) {
    return materializeSize(builder, op.getLoc(), value);
  };
  for (const QuantizeSizes<OpFoldResult> *sizes : {&ofLines, &ofCopy})
    for (OpFoldResult argument : QuantizeLaunch::addSizes(*sizes, numbers))
      operands.push_back(getIndex(argument));
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "quantize_copy",
      {TypeAttr::get(lines.inputType), TypeAttr::get(lines.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        gpu::GPUFuncOp kernel = buildQuantizeCopy(op.getLoc(), module, name,
                                                  lines, copy, tile, hooks);
        hooks.requestResidentBlocks(kernel, tile.residentBlocks);
      });
  Value blocks = getIndex(
            size.mul(countTiles(ofCopy), builder.getIndexAttr(tile.cluster))),
        one = getIndex(builder.getIndexAttr(1));
  SmallVector<int64_t> cluster;
  if (tile.cluster > 1)
    cluster = {tile.cluster, 1, 1};
  plan::LaunchOp::create(builder, op.getLoc(), kernel,
                         ValueRange{blocks, one, one}, {tile.threads, 1, 1},
                         tile.getSharedBytes(), operands, /*condition=*/{},
                         cluster);
}

namespace {
class QuantizeCopyOpLowering : public OpLowering {
public:
  StringRef getName() const override {
    return "dynamic quantizations with a copy";
  }
  bool matches(Operation *op) const override {
    return isa<DynamicQuantizeCopyOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override;
};
} // namespace

LogicalResult QuantizeCopyOpLowering::lower(Operation *operation,
                                            ProgramLowering &lowering) const {
  auto op = cast<DynamicQuantizeCopyOp>(operation);
  if (failed(requireKernels(op, lowering.getTarget())) ||
      failed(requireChoice(op, lowering.getTarget())) ||
      failed(lowering.requireFP8(op, "to",
                                 op.getQuantized().getType().getElementType())))
    return failure();
  FailureOr<BufferView> data =
      lowering.createResult(cast<OpResult>(op.getQuantized()));
  FailureOr<BufferView> copy =
      lowering.createResult(cast<OpResult>(op.getCopy()));
  FailureOr<BufferView> scales =
      lowering.createResult(cast<OpResult>(op.getScales()));
  if (failed(data) || failed(copy) || failed(scales))
    return failure();
  QuantizeCopyViews views{lowering.getView(op.getInput()), *data, *copy,
                          *scales, std::nullopt};
  if (op.getOffsets())
    views.offsets = lowering.getView(op.getOffsets());
  QuantizeCopyLaunch(op, views, lowering).launch();
  return success();
}

namespace mlir::fp8moe {
const OpLowering &getQuantizeCopyOpLowering() {
  static const QuantizeCopyOpLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
