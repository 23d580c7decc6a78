//===- HeldBothAxesCalibration.cpp - What holding tiles takes -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/NVIDIA/HeldBothAxesCalibration.h"

using namespace mlir::fp8moe;

static constexpr HeldBothAxesCalibration getH100() {
  HeldBothAxesCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.speedPercent = measured<int64_t>(
      88, "one NVIDIA H100, 2026-11-26: experts, 64 of 1408x2048 and 128 of "
          "768x2048, less the next two");
  row.fillTime = measured<int64_t>(
      14000000, "one NVIDIA H100, 2026-11-26: 8 experts of 1408x2048");
  row.tileTime = measured<int64_t>(
      2900000, "one NVIDIA H200, 2026-11-28: 2048 lines of 512 and of 768");
  row.columnTime = measured<int64_t>(2150, "the same");
  row.elementTime = measured<int64_t>(
      162, "one NVIDIA H200, 2026-11-28: 2048 lines of 1024 to 2880");
  row.cutExpertTime =
      measured(2.3, "one NVIDIA H200, 2026-11-28: 32 experts of 2880x2880 and "
                    "128 of 768x2048");
  row.apartPercent = measured<int64_t>(
      85, "one NVIDIA H100 and one H200, 2026-11-28: 2048 lines of 512 to "
          "2880");
  row.unalignedStoreTime =
      assumed(0.6, "as the single-pass outer kernel took when it stored "
                   "parts of 16 bytes");
  return row;
}

static constexpr HeldBothAxesCalibration table[] = {getH100()};

const HeldBothAxesCalibration *
mlir::fp8moe::getHeldBothAxesCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
