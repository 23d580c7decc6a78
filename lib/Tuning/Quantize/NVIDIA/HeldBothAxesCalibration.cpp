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
  row.tileTime = assumed<int64_t>(3000000, "trips to memory of magnitudes");
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
