//===- GeneralQuantize.cpp - Kernels that take everything -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/GeneralQuantize.h"
#include "FP8MoEToGPU/Quantize/QuantizeKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

gpu::GPUFuncOp fp8moe::buildGeneralQuantize(Location loc,
                                            gpu::GPUModuleOp module,
                                            StringRef name,
                                            const AxisQuantizeProblem &problem,
                                            const QuantizeConfig &config,
                                            const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 2 + problem.jagged + !problem.scalesOnly;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = config.threads;
  KernelBuilder b(loc, module, name, signature, hooks);
  QuantizeKernel kernel(b, problem);
  if (config.method == QuantizeMethod::RegisterResident)
    buildRegisterResident(kernel, config);
  else if (config.kind == QuantizeConfig::Inner)
    buildTwoPassInner(kernel, config);
  else
    buildTwoPassOuter(kernel, config);
  return b.getKernel();
}
