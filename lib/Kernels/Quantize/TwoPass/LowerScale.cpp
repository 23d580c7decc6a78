//===- LowerScale.cpp - Scales without data -------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Where the tensors are; offsets only when jagged.
struct ScaleViews {
  BufferView input, scales;
  std::optional<BufferView> offsets;
};
} // namespace

/// As of a quantization whose data would lie like the input.
static FailureOr<QuantizeSizes<OpFoldResult>>
getSizes(Operation *op, int64_t axis, const ScaleViews &views,
         ProgramLowering &lowering) {
  SmallVector<int64_t> strides =
      llvm::map_to_vector(views.input.strides, getStaticSize);
  std::optional<QuantizeDims> dims = assignQuantizeDims(axis, strides, strides);
  if (!dims)
    return lowering.reportUnsupported(
        op, "of a tensor of rank " + Twine(strides.size()) +
                " (expected at most 3; merge dimensions with fp8moe.reshape)");
  OpBuilder builder = lowering.getBuilder();
  QuantizeTensors<OpFoldResult> tensors{
      builder.getIndexAttr(0), builder.getIndexAttr(1), views.input.sizes,
      views.input.strides,
      /*outputStrides=*/{},    views.scales.strides,    std::nullopt};
  if (views.offsets)
    tensors.groups = views.offsets->sizes.front();
  return getQuantizeSizes(tensors, axis, *dims);
}

template <typename ScaleOpTy>
static LogicalResult lowerScale(ScaleOpTy op, Value offsets,
                                ProgramLowering &lowering) {
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
  ScaleViews views{lowering.getView(op.getInput()), *scales, std::nullopt};
  SmallVector<Value> buffers{views.input.buffer};
  if (offsets) {
    views.offsets = lowering.getView(offsets);
    buffers.push_back(views.offsets->buffer);
  }
  buffers.push_back(views.scales.buffer);
  FailureOr<QuantizeSizes<OpFoldResult>> sizes =
      getSizes(op, op.getAxis(), views, lowering);
  if (failed(sizes))
    return failure();

  AxisQuantizeProblem problem;
  problem.inputType = op.getInput().getType().getElementType();
  problem.fp8Type = op.getFp8Type();
  problem.powerOfTwo = op.getRounding() == ScaleRounding::Pow2;
  problem.jagged = views.offsets.has_value();
  problem.scalesOnly = true;
  problem.inputAlignment = getBufferAlignment(views.input);
  problem.sizes = getKnownSizes(*sizes);
  SmallVector<int64_t> key{problem.powerOfTwo, problem.jagged,
                           problem.inputAlignment};
  SmallVector<OpFoldResult> arguments = QuantizeLaunch::addSizes(*sizes, key);
  FailureOr<KernelChoiceAttr> choice = requireChoice(op, lowering.getTarget());
  if (failed(choice))
    return failure();
  // The tiles of scales have no conditions: one takes everything.
  auto tile = cast<TwoPassTileAttr>(choice->getFirst().getTile());
  QuantizeKind kind = getQuantizeKind(getQuantizeWorks(op).front());
  OpBuilder builder = lowering.getBuilder();
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      ("scale_" + stringifyQuantizeKind(kind)).str(),
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type), tile,
       builder.getDenseI64ArrayAttr(key)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildGeneralQuantize(
            op.getLoc(), module, name, problem, tile.getThreads(),
            [&](QuantizeKernel &kernel) { buildTwoPass(kernel, tile, kind); },
            target);
      });
  // Rows of no group have no scales.
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  HostSize workTiles = two_pass::countWorkTiles(
      tile, kind, HostSize(b, sizes->segments), HostSize(b, sizes->parallel),
      /*withRemainder=*/false);
  lowering.createLaunch(op.getLoc(), kernel, workTiles.getSize(builder),
                        tile.getThreads(), buffers, arguments);
  return success();
}

namespace {
class ScaleOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "scales"; }
  bool matches(Operation *op) const override {
    return isa<ScaleOp, JaggedScaleOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    if (auto jagged = dyn_cast<JaggedScaleOp>(op))
      return lowerScale(jagged, jagged.getOffsets(), lowering);
    return lowerScale(cast<ScaleOp>(op), /*offsets=*/Value(), lowering);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(OpLowering, ScaleOpLowering)
