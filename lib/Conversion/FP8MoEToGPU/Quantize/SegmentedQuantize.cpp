//===- SegmentedQuantize.cpp - Quantize segments of a matrix --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/SegmentedQuantize.h"
#include "FP8MoEToGPU/Quantize/QuantizeKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

gpu::GPUFuncOp fp8moe::buildSegmentedQuantize(Location loc,
                                              gpu::GPUModuleOp module,
                                              StringRef name,
                                              const QuantizeProblem &problem,
                                              const QuantizeSchedule &schedule,
                                              const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 2 + problem.jagged + !problem.scalesOnly;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = schedule.threads;
  KernelBuilder b(loc, module, name, signature, hooks);
  QuantizeKernel kernel(b, problem);
  if (schedule.method == QuantizeMethod::RegisterResident)
    buildQuantizeHeld(kernel, schedule);
  else if (schedule.kind == QuantizeSchedule::Inner)
    buildTwoPassInner(kernel, schedule);
  else
    buildTwoPassOuter(kernel, schedule);
  return b.getKernel();
}
