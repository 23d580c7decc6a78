//===- GeneralLaunch.cpp - Launches kernels that take everything ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::buildGeneralQuantize(Location loc, gpu::GPUModuleOp module,
                                  StringRef name,
                                  const AxisQuantizeProblem &problem,
                                  int64_t threads, GeneralSchedule schedule,
                                  const TargetInfo &target) {
  KernelSignature signature;
  signature.pointers = 2 + problem.jagged + !problem.scalesOnly;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = threads;
  KernelBuilder b(loc, module, name, signature, target);
  QuantizeKernel kernel(b, problem);
  schedule(kernel);
}

namespace {
class GeneralLaunch : QuantizeLaunch {
public:
  explicit GeneralLaunch(const QuantizeInstance &instance,
                         ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        instance(instance) {}

  void launch(
      StringRef name, int64_t threads, GeneralSchedule schedule,
      function_ref<HostSize(const HostSize &, const HostSize &)> countWorkTiles,
      Value when) {
    SmallVector<int64_t> numbers{problem.powerOfTwo, problem.jagged,
                                 problem.outputPadding, problem.inputAlignment,
                                 problem.outputAlignment};
    SmallVector<OpFoldResult> arguments = addSizes(numbers);
    SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
        name,
        {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
         instance.tile, builder.getDenseI64ArrayAttr(numbers)},
        [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
          buildGeneralQuantize(b.getLoc(), module, name, problem, threads,
                               schedule, target);
        });
    SmallVector<Value> pointers{buffers.input};
    if (problem.jagged)
      pointers.push_back(buffers.offsets);
    pointers.append({buffers.output, buffers.scales});
    HostSize workTiles = countWorkTiles(HostSize(b, sizes.segments),
                                        HostSize(b, sizes.parallel));
    lowering.createLaunch(b.getLoc(), kernel, workTiles.getSize(builder),
                          threads, pointers, arguments,
                          both(when, instance.isNeeded));
  }

private:
  const QuantizeInstance &instance;
};
} // namespace

void fp8moe::launchGeneral(
    const QuantizeInstance &instance, StringRef name, int64_t threads,
    GeneralSchedule schedule,
    function_ref<HostSize(const HostSize &, const HostSize &)> countWorkTiles,
    Value when, ProgramLowering &lowering) {
  GeneralLaunch(instance, lowering)
      .launch(name, threads, schedule, countWorkTiles, when);
}
