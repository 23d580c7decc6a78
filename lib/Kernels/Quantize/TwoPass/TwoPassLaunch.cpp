//===- TwoPassLaunch.cpp - Launches of #fp8moe.two_pass -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/TwoPass/TwoPassKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::buildTwoPass(QuantizeKernel &kernel,
                          const QuantizeConfig &config) {
  if (config.kind == QuantizeConfig::Inner)
    buildTwoPassInner(kernel, config);
  else
    buildTwoPassOuter(kernel, config);
}

namespace {
class TwoPassLowering : public TileLowering<TwoPassTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    const auto &quantize = cast<QuantizeInstance>(instance);
    std::string name =
        ("quantize_two_pass_" + stringifyQuantizeKind(quantize.config.kind))
            .str();
    launchGeneral(quantize, name, buildTwoPass, when, lowering);
    return Value();
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelLowering &getTwoPassLowering() {
  static const TwoPassLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
