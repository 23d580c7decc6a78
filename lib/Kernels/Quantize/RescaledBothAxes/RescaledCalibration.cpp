//===- RescaledCalibration.cpp - What rescaling takes ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledCalibration.h"

using namespace mlir::fp8moe;

static constexpr RescaledCalibration getH100() {
  RescaledCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.linesPercent = measured<int64_t>(
      94, "one NVIDIA H100, 2026-11-26: experts, 16 of 8192x5120 and 64 of "
          "7168x2048");
  row.columnsPercent =
      measured<int64_t>(94, "one NVIDIA H100, 2026-11-26: the same experts");
  row.fillTime = measured<int64_t>(
      8000000, "one NVIDIA H100, 2026-11-26: one expert of 8192x5120 takes 9 "
               "us more than a 16th of 16");
  row.lineTime = assumed<int64_t>(1200000, "a trip to memory and a barrier");
  row.magnitudeTime = measured(
      2.0, "one NVIDIA H100, 2026-11-26: twice as many blocks for 16384 rows");
  row.edgeTime = measured(
      130.0, "one NVIDIA H100, 2026-11-26: 16640x5120 in 16 groups takes 14 us "
             "more than such experts, 32768x7168 in 64 groups 57 us");
  row.unalignedStoreTime =
      assumed(0.6, "as the single-pass outer kernel took when it stored "
                   "parts of 16 bytes");
  return row;
}

/// Chips that were not measured are as an H100.
static constexpr RescaledCalibration asH100(llvm::StringLiteral chip) {
  RescaledCalibration h100 = getH100(), row;
  row.chip = chip;
  row.linesPercent = assumed(*h100.linesPercent, "as an H100");
  row.columnsPercent = assumed(*h100.columnsPercent, "as an H100");
  row.fillTime = assumed(*h100.fillTime, "as an H100");
  row.lineTime = assumed(*h100.lineTime, "as an H100");
  row.magnitudeTime = assumed(*h100.magnitudeTime, "as an H100");
  row.edgeTime = assumed(*h100.edgeTime, "as an H100");
  row.unalignedStoreTime = assumed(*h100.unalignedStoreTime, "as an H100");
  return row;
}

static constexpr RescaledCalibration table[] = {
    getH100(),
    asH100("sm_100a"),
    asH100("gfx942"),
    asH100("gfx950"),
};

const RescaledCalibration *
mlir::fp8moe::getRescaledCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
