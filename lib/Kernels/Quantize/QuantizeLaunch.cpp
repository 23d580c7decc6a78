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

void QuantizeLaunch::launchGeneral(const QuantizeInstance &instance,
                                   StringRef name, int64_t threads,
                                   const HostSize &workTiles,
                                   GeneralSchedule schedule, Value when) {
  KernelLaunch kernel{name,
                      {TypeAttr::get(problem.inputType),
                       TypeAttr::get(problem.fp8Type), instance.tile},
                      {problem.powerOfTwo, problem.jagged,
                       problem.outputPadding, problem.inputAlignment,
                       problem.outputAlignment},
                      threads,
                      {buffers.input},
                      listSizes(sizes)};
  for (Value pointer : {buffers.offsets, buffers.output})
    if (pointer)
      kernel.buffers.push_back(pointer);
  kernel.buffers.push_back(buffers.scales);
  lowering.launchKernel(
      b.getLoc(), kernel, workTiles.getSize(b),
      [&](KernelBuilder &builder) {
        unsigned pointer = 0, size = 0;
        QuantizeKernel kernel(builder, problem, pointer, size);
        schedule(kernel);
      },
      both(when, instance.isNeeded));
}
