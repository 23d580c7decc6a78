//===- SegmentedLaunch.cpp - Launches kernels that take everything --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/SegmentedLaunch.h"

#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class SegmentedLaunch : QuantizeLaunch {
public:
  SegmentedLaunch(const QuantizeInstance &instance, ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        tile(instance.tile) {}

  void launch(Value when);

private:
  OpFoldResult countWorkTiles();
  SymbolRefAttr getKernel(SmallVectorImpl<OpFoldResult> &arguments);

  const QuantizeConfig &tile;
};
} // namespace

/// How many work tiles the tile divides a quantization into.
OpFoldResult SegmentedLaunch::countWorkTiles() {
  OpFoldResult segments = problem.jagged
                              ? size.add(sizes.segments, size.constant(1))
                              : sizes.segments;
  OpFoldResult strips =
      size.ceilDiv(sizes.parallel, tile.getColumnsPerWorkTile());
  if (tile.method == QuantizeMethod::RegisterResident) {
    OpFoldResult workTiles = size.mul(sizes.segments, strips);
    return problem.jagged
               ? size.add(workTiles, size.ceilDiv(strips, kHeldTailStrips))
               : workTiles;
  }
  if (tile.kind == QuantizeConfig::Inner)
    return size.ceilDiv(size.mul(segments, sizes.parallel),
                        tile.columnsPerBlock);
  return size.mul(segments, strips);
}

SymbolRefAttr
SegmentedLaunch::getKernel(SmallVectorImpl<OpFoldResult> &arguments) {
  SmallVector<int64_t> numbers{
      problem.powerOfTwo,      problem.jagged,
      problem.outputPadding,   problem.inputAlignment,
      problem.outputAlignment, tile.threads,
      tile.columnsPerBlock,    static_cast<int64_t>(tile.method),
      tile.heldChunks,         tile.rounds};
  arguments = addSizes(numbers);
  std::string name = ("quantize_" + stringifyQuantizeKind(tile.kind)).str();
  if (tile.method == QuantizeMethod::RegisterResident)
    name += "_held";
  return lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildSegmentedQuantize(b.getLoc(), module, name, problem, tile, hooks);
      });
}

void SegmentedLaunch::launch(Value when) {
  SmallVector<OpFoldResult> arguments;
  SymbolRefAttr kernel = getKernel(arguments);
  SmallVector<Value> pointers{buffers.input};
  if (problem.jagged)
    pointers.push_back(buffers.offsets);
  pointers.append({buffers.output, buffers.scales});
  lowering.createLaunch(b.getLoc(), kernel, countWorkTiles(), tile.threads,
                        pointers, arguments, both(when, isNeeded));
}

namespace {
class SegmentedQuantizeLowering : public KernelLowering {
public:
  bool takes(const KernelInstance &instance) const override {
    auto *quantize = dyn_cast<QuantizeInstance>(&instance);
    return quantize && quantize->tile.isGeneral();
  }
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    SegmentedLaunch(cast<QuantizeInstance>(instance), lowering).launch(when);
    return Value();
  }
};
} // namespace

const KernelLowering &fp8moe::getSegmentedQuantizeLowering() {
  static const SegmentedQuantizeLowering lowering;
  return lowering;
}
