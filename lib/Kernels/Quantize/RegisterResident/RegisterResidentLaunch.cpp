//===- RegisterResidentLaunch.cpp - Launches of their tiles ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/RegisterResident/RegisterResidentKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class RegisterResidentLowering : public TileLowering<RegisterResidentTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    launchGeneral(cast<QuantizeInstance>(instance),
                  "quantize_register_resident", buildRegisterResident, when,
                  lowering);
    return Value();
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelLowering &getRegisterResidentLowering() {
  static const RegisterResidentLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
