//===- GeneralLaunch.cpp - Launches kernels that take everything ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/QuantizeModels.h"

using namespace mlir;
using namespace mlir::fp8moe;

gpu::GPUFuncOp fp8moe::buildGeneralQuantize(
    Location loc, gpu::GPUModuleOp module, StringRef name,
    const AxisQuantizeProblem &problem, const QuantizeConfig &config,
    GeneralSchedule schedule, const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 2 + problem.jagged + !problem.scalesOnly;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = config.threads;
  KernelBuilder b(loc, module, name, signature, hooks);
  QuantizeKernel kernel(b, problem);
  schedule(kernel, config);
  return b.getKernel();
}

namespace {
class GeneralLaunch : QuantizeLaunch {
public:
  GeneralLaunch(const QuantizeInstance &instance, ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        config(instance.config) {}

  void launch(StringRef name, GeneralSchedule schedule, Value when);

private:
  SymbolRefAttr getKernel(StringRef name, GeneralSchedule schedule,
                          SmallVectorImpl<OpFoldResult> &arguments);

  const QuantizeConfig &config;
};
} // namespace

SymbolRefAttr
GeneralLaunch::getKernel(StringRef name, GeneralSchedule schedule,
                         SmallVectorImpl<OpFoldResult> &arguments) {
  SmallVector<int64_t> numbers{
      problem.powerOfTwo,      problem.jagged,
      problem.outputPadding,   problem.inputAlignment,
      problem.outputAlignment, config.threads,
      config.columnsPerBlock,  static_cast<int64_t>(config.method),
      config.heldChunks,       config.rounds};
  arguments = addSizes(numbers);
  return lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildGeneralQuantize(b.getLoc(), module, name, problem, config,
                             schedule, hooks);
      });
}

void GeneralLaunch::launch(StringRef name, GeneralSchedule schedule,
                           Value when) {
  SmallVector<OpFoldResult> arguments;
  SymbolRefAttr kernel = getKernel(name, schedule, arguments);
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

void fp8moe::launchGeneral(const QuantizeInstance &instance, StringRef name,
                           GeneralSchedule schedule, Value when,
                           ProgramLowering &lowering) {
  GeneralLaunch(instance, lowering).launch(name, schedule, when);
}
