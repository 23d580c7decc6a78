//===- RegisterResidentCalibration.cpp - Figures of held slices -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RegisterResident/RegisterResidentCalibration.h"

using namespace mlir::fp8moe;

/// The registers that ptxas needs without spilling, fitted: 54, and nine for
/// every eight that hold.
static constexpr RegisterResidentRegisters ptxasRegisters = {
    {63, 72, 81, 90, 99, 108, 117, 126}, 90};
/// The registers that LLVM 22 assigns: `.vgpr_count` in the notes of 672
/// kernels for each chip, 2026-11-23. They are all teams, of 16 and 32 bits,
/// with one chunk to as many as a thread holds, with whole chunks and without;
/// jagged groups with a known number of columns, with an unknown one, and
/// padded.
static constexpr RegisterResidentRegisters gfx942Registers = {
    {47, 56, 73, 88, 105, 113, 116, 121}, 156};
static constexpr RegisterResidentRegisters gfx950Registers = {
    {46, 55, 72, 88, 104, 112, 115, 126}, 155};

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

/// Chunks need no alignment where accesses of 16 bytes may begin anywhere.
static constexpr RegisterResidentCalibration
asAMD(llvm::StringLiteral chip, Figure<RegisterResidentRegisters> registers) {
  RegisterResidentCalibration row = asH200(chip, registers);
  row.elementTrip = assumed(0.0, "accesses may begin anywhere");
  return row;
}

static constexpr RegisterResidentCalibration table[] = {
    getH200(),
    asH200("sm_100a", assumed(ptxasRegisters, "as ptxas for sm_90a")),
    asAMD("gfx942", measured(gfx942Registers, "LLVM 22, 2026-11-23")),
    asAMD("gfx950", measured(gfx950Registers, "LLVM 22, 2026-11-23")),
};

const RegisterResidentCalibration *
mlir::fp8moe::getRegisterResidentCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
