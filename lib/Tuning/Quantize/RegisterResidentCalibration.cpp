//===- RegisterResidentCalibration.cpp - Figures of held slices -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/RegisterResidentCalibration.h"

using namespace mlir::fp8moe;

/// What ptxas needs without spilling, fitted: 54, and nine for every eight that
/// hold.
static constexpr RegisterResidentRegisters ptxasRegisters = {
    {63, 72, 81, 90, 99, 108, 117, 126}, 90};
static constexpr RegisterResidentCalibration getH200() {
  constexpr llvm::StringLiteral leastRegret =
      "one NVIDIA H200, 2026-11-21: least regret on "
      "benchmarks/calibration_shapes.json";
  RegisterResidentCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.registers = measured(ptxasRegisters, "ptxas of CUDA 13");
  row.wait = measured(850000.0, "one NVIDIA H200, 2026-11-21: 331 waves of "
                                "teams of 256 take 312 us, and others a little "
                                "less");
  row.laterTrip = measured(500000.0, leastRegret);
  row.elementTrip = measured(180000.0, leastRegret);
  row.bounds = measured(1700000.0, leastRegret);
  return row;
}

/// Times of a chip that was not measured are an H200's.
static constexpr RegisterResidentCalibration
asH200(llvm::StringLiteral chip, Figure<RegisterResidentRegisters> registers) {
  RegisterResidentCalibration h200 = getH200(), row;
  row.chip = chip;
  row.registers = registers;
  row.wait = assumed(*h200.wait, "as an H200");
  row.laterTrip = assumed(*h200.laterTrip, "as an H200");
  row.elementTrip = assumed(*h200.elementTrip, "as an H200");
  row.bounds = assumed(*h200.bounds, "as an H200");
  return row;
}

static constexpr RegisterResidentCalibration table[] = {
    getH200(),
    asH200("sm_100a", assumed(ptxasRegisters, "as ptxas for sm_90a")),
    asH200("gfx942", assumed(ptxasRegisters, "as ptxas for sm_90a")),
    asH200("gfx950", assumed(ptxasRegisters, "as ptxas for sm_90a")),
};

const RegisterResidentCalibration *
mlir::fp8moe::getRegisterResidentCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
