//===- HeldBothAxesCalibration.cpp - What holding tiles takes -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/NVIDIA/HeldBothAxesCalibration.h"

using namespace mlir::fp8moe;

static constexpr HeldBothAxesCalibration getHopper() {
  HeldBothAxesCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.speedPercent = measured<int64_t>(
      88, "one NVIDIA H100, 2026-11-26: experts, 64 of 1408x2048 and 128 of "
          "768x2048, less the next two");
  row.fillTime = measured<int64_t>(
      8500000, "one NVIDIA H100 and one H200, 2026-11-28: 8 and 16 experts of "
               "2048x1408, 8 of 4096x2048");
  row.tileTime = measured<int64_t>(
      2870000, "one NVIDIA H200, 2026-11-28: 2048 lines of 512 and of 768");
  row.columnTime = measured<int64_t>(2285, "the same");
  row.elementTime = measured<int64_t>(
      165, "one NVIDIA H200, 2026-11-28: 2048 lines of 1024 to 2880");
  row.cutExpertTime =
      measured(2.3, "one NVIDIA H200, 2026-11-28: 32 experts of 2880x2880 and "
                    "128 of 768x2048");
  row.apartPercent = measured<int64_t>(
      87, "one NVIDIA H100 and one H200, 2026-11-28: 2048 lines of 512 to "
          "2880");
  return row;
}

static constexpr HeldBothAxesCalibration table[] = {getHopper()};

const HeldBothAxesCalibration *
mlir::fp8moe::getHeldBothAxesCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
