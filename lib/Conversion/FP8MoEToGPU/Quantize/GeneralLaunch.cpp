//===- GeneralLaunch.cpp - Launches kernels that take everything ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/GeneralLaunch.h"

#include "FP8MoEToGPU/Quantize/GeneralQuantize.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

#include "fp8moe/Tuning/Quantize/QuantizeModels.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class GeneralLaunch : QuantizeLaunch {
public:
  GeneralLaunch(const QuantizeInstance &instance, ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        config(instance.config) {}

  void launch(Value when);

private:
  SymbolRefAttr getKernel(SmallVectorImpl<OpFoldResult> &arguments);

  const QuantizeConfig &config;
};
} // namespace

SymbolRefAttr
GeneralLaunch::getKernel(SmallVectorImpl<OpFoldResult> &arguments) {
  SmallVector<int64_t> numbers{
      problem.powerOfTwo,      problem.jagged,
      problem.outputPadding,   problem.inputAlignment,
      problem.outputAlignment, config.threads,
      config.columnsPerBlock,  static_cast<int64_t>(config.method),
      config.heldChunks,       config.rounds};
  arguments = addSizes(numbers);
  std::string name =
      config.method == QuantizeMethod::RegisterResident
          ? "quantize_register_resident"
          : ("quantize_two_pass_" + stringifyQuantizeKind(config.kind)).str();
  return lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildGeneralQuantize(b.getLoc(), module, name, problem, config, hooks);
      });
}

void GeneralLaunch::launch(Value when) {
  SmallVector<OpFoldResult> arguments;
  SymbolRefAttr kernel = getKernel(arguments);
  SmallVector<Value> pointers{buffers.input};
  if (problem.jagged)
    pointers.push_back(buffers.offsets);
  pointers.append({buffers.output, buffers.scales});
  HostSize workTiles = countWorkTiles(config, HostSize(b, sizes.segments),
                                      HostSize(b, sizes.parallel),
                                      /*withRemainder=*/problem.jagged);
  lowering.createLaunch(b.getLoc(), kernel, workTiles.getSize(builder),
                        config.threads, pointers, arguments,
                        both(when, isNeeded));
}

namespace {
template <typename TileT>
class GeneralQuantizeLowering : public TileLowering<TileT> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    GeneralLaunch(cast<QuantizeInstance>(instance), lowering).launch(when);
    return Value();
  }
};
} // namespace

const KernelLowering &fp8moe::getTwoPassLowering() {
  static const GeneralQuantizeLowering<TwoPassTileAttr> lowering;
  return lowering;
}

const KernelLowering &fp8moe::getRegisterResidentLowering() {
  static const GeneralQuantizeLowering<RegisterResidentTileAttr> lowering;
  return lowering;
}
