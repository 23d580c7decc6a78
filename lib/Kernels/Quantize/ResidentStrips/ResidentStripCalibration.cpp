//===- ResidentStripCalibration.cpp - Figures of held strips --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/ResidentStrips/ResidentStripCalibration.h"

using namespace mlir::fp8moe;

/// The registers that LLVM 22 assigns without spilling: the most of kernels
/// with known and unknown sizes, padded and not, of both FP8 types, and both
/// chips.
static constexpr ResidentStripRegisters llvmRegisters = {{168, 232},
                                                         {192, 256}};

/// No card was measured. Trips are as those of kernels that read twice.
static constexpr ResidentStripCalibration getRow(llvm::StringLiteral chip) {
  ResidentStripCalibration row;
  row.chip = chip;
  row.registers = measured(llvmRegisters, "LLVM 22, 2026-11-25");
  row.memoryLatency = assumed<int64_t>(800000, "as an H200");
  row.boundsTrips = assumed<int64_t>(3, "as an H200");
  row.exchangeTrips = assumed<int64_t>(
      4, "a store on its way, a look that comes too early, one that does not, "
         "and the pause between them");
  row.cooperativeTime = assumed<int64_t>(
      5000000, "such launches go through a queue of their own");
  row.speedPercent = assumed<int64_t>(90, "as an H200's transposed kernels");
  return row;
}

static constexpr ResidentStripCalibration table[] = {
    getRow("gfx942"),
    getRow("gfx950"),
};

const ResidentStripCalibration *
mlir::fp8moe::getResidentStripCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
