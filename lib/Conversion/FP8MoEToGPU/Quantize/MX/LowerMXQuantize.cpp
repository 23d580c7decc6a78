//===- LowerMXQuantize.cpp - MX quantizations to kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/SegmentTiles.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"

#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/MX/MXQuantize.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Tuning/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Where the tensors of a quantization are; offsets only with groups.
struct MXViews {
  BufferView input, output, scales;
  std::optional<BufferView> offsets;
};
} // namespace

static MXSizes<OpFoldResult> getSizes(MXQuantizeOp op, const MXViews &views,
                                      OpBuilder &builder) {
  int64_t axis = op.getAxis();
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

static MXQuantizeProblem getProblem(MXQuantizeOp op, const MXViews &views,
                                    const MXSizes<OpFoldResult> &sizes) {
  MXQuantizeProblem problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.fp8Type = op.getQuantized().getType().getElementType();
  problem.mode = op.getMode();
  problem.tiledScales = views.scales.strides.empty();
  if (views.offsets)
    problem.groups = op.getAxis() == 0 ? MXGroups::Elements : MXGroups::Lines;
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.outputAlignment = getBufferAlignment(views.output);
  for (auto [from, to] : llvm::zip_equal(MXSizes<OpFoldResult>::members(),
                                         MXSizes<int64_t>::members()))
    problem.sizes.*to = getStaticSize(sizes.*from);
  return problem;
}

static SymbolRefAttr getKernel(Location loc, const MXQuantizeProblem &problem,
                               ProgramLowering &lowering) {
  SmallVector<int64_t> key{static_cast<int64_t>(problem.mode),
                           problem.tiledScales,
                           static_cast<int64_t>(problem.groups),
                           problem.inputAlignment, problem.outputAlignment};
  for (auto member : MXSizes<int64_t>::members())
    key.push_back(problem.sizes.*member);
  OpBuilder builder = lowering.getBuilder();
  return lowering.getKernels().getOrBuild(
      readsAlongLines(problem) ? "mx_quantize_inner" : "mx_quantize_outer",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(key)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildMXQuantize(loc, module, name, problem, hooks);
      });
}

static LogicalResult lowerMXQuantize(MXQuantizeOp op,
                                     ProgramLowering &lowering) {
  if (failed(requireKernels(op, lowering.getTarget())))
    return failure();
  Type fp8Type = op.getQuantized().getType().getElementType();
  if (failed(lowering.requireFP8(op, "to", fp8Type)))
    return failure();
  FailureOr<BufferView> output =
      lowering.createResult(cast<OpResult>(op.getQuantized()));
  FailureOr<BufferView> scales =
      lowering.createResult(cast<OpResult>(op.getScales()));
  if (failed(output) || failed(scales))
    return failure();
  MXViews views{lowering.getView(op.getInput()), *output, *scales,
                std::nullopt};
  SmallVector<Value> buffers{views.input.buffer};
  if (op.getOffsets()) {
    views.offsets = lowering.getView(op.getOffsets());
    buffers.push_back(views.offsets->buffer);
  }
  buffers.append({views.output.buffer, views.scales.buffer});

  OpBuilder builder = lowering.getBuilder();
  MXSizes<OpFoldResult> sizes = getSizes(op, views, builder);
  MXQuantizeProblem problem = getProblem(op, views, sizes);
  SmallVector<OpFoldResult> arguments;
  for (auto member : MXSizes<OpFoldResult>::members())
    arguments.push_back(sizes.*member);
  OpFoldResult rows = sizes.lines, columns = sizes.elements;
  if (problem.groups == MXGroups::Elements)
    std::swap(rows, columns);
  SizeBuilder size(builder, op.getLoc());
  OpFoldResult tiles =
      countSegmentTiles(size, sizes.segments, rows, columns,
                        /*jagged=*/problem.groups != MXGroups::None);
  lowering.createLaunch(op.getLoc(), getKernel(op.getLoc(), problem, lowering),
                        tiles, countMXThreads(problem), buffers, arguments);
  return success();
}

namespace {
class MXQuantizeOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "MX quantizations"; }
  bool matches(Operation *op) const override { return isa<MXQuantizeOp>(op); }
  bool writesResults() const override { return true; }
  bool writesTiledScales() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    return lowerMXQuantize(cast<MXQuantizeOp>(op), lowering);
  }
};
} // namespace

namespace mlir::fp8moe {
const OpLowering &getMXQuantizeOpLowering() {
  static const MXQuantizeOpLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
