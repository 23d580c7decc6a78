//===- QuantizeLaunch.cpp - Launches of quantize kernels ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/QuantizeKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::launchGeneral(
    const QuantizeInstance &instance, StringRef name, int64_t threads,
    GeneralSchedule schedule,
    function_ref<HostSize(const HostSize &, const HostSize &)> countWorkTiles,
    Value when, ProgramLowering &lowering) {
  QuantizeLaunch launch(instance, instance.operands, lowering);
  ImplicitLocOpBuilder &b = launch.b;
  const AxisQuantizeProblem &problem = launch.problem;
  SmallVector<int64_t> numbers{problem.powerOfTwo, problem.jagged,
                               problem.outputPadding, problem.inputAlignment,
                               problem.outputAlignment};
  SmallVector<OpFoldResult> arguments = launch.addSizes(numbers);
  SmallVector<Value> pointers{launch.buffers.input};
  for (Value pointer : {launch.buffers.offsets, launch.buffers.output})
    if (pointer)
      pointers.push_back(pointer);
  pointers.push_back(launch.buffers.scales);
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       instance.tile, b.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        KernelSignature signature;
        signature.pointers = pointers.size();
        signature.sizes = countDynamic(problem.sizes);
        signature.threads = threads;
        KernelBuilder builder(b.getLoc(), module, name, signature, target);
        unsigned pointer = 0, size = 0;
        QuantizeKernel kernel(builder, problem, pointer, size);
        schedule(kernel);
      });
  HostSize workTiles = countWorkTiles(HostSize(b, launch.sizes.segments),
                                      HostSize(b, launch.sizes.parallel));
  lowering.createLaunch(b.getLoc(), kernel, workTiles.getSize(b), threads,
                        pointers, arguments,
                        launch.both(when, instance.isNeeded));
}
