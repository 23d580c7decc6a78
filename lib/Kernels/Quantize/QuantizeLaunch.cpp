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
  KernelLaunch kernel{name,
                      {TypeAttr::get(problem.inputType),
                       TypeAttr::get(problem.fp8Type), instance.tile},
                      {problem.powerOfTwo, problem.jagged,
                       problem.outputPadding, problem.inputAlignment,
                       problem.outputAlignment},
                      threads,
                      {launch.buffers.input},
                      listSizes(launch.sizes)};
  for (Value pointer : {launch.buffers.offsets, launch.buffers.output})
    if (pointer)
      kernel.buffers.push_back(pointer);
  kernel.buffers.push_back(launch.buffers.scales);
  HostSize workTiles = countWorkTiles(HostSize(b, launch.sizes.segments),
                                      HostSize(b, launch.sizes.parallel));
  lowering.launchKernel(
      b.getLoc(), kernel, workTiles.getSize(b),
      [&](KernelBuilder &builder) {
        unsigned pointer = 0, size = 0;
        QuantizeKernel kernel(builder, problem, pointer, size);
        schedule(kernel);
      },
      launch.both(when, instance.isNeeded));
}
