//===- SinglePassInnerCalibration.cpp - Figures of whole columns ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/NVIDIA/SinglePassInnerCalibration.h"

using namespace mlir::fp8moe;

/// Times were fitted to benchmarks/calibration_shapes.json.
static constexpr SinglePassInnerCalibration getH200() {
  constexpr llvm::StringLiteral manyGroups =
      "one NVIDIA H200, 2026-11-22: 128 groups of 12800x2048 take 32 us, 64 of "
      "6400x5120 37 us, and eight of 512x5120 10 us";
  SinglePassInnerCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.registers = measured<int64_t>(64, "ptxas of CUDA 13");
  row.fillTime = measured<int64_t>(
      2200000, "one NVIDIA H200, 2026-11-22: 768x2048 takes 5.8 us, 16640x5120 "
               "69 us and 32768x2048 53 us, where copies take 1, 61 and 48 us");
  row.clusterFillTime = measured<int64_t>(
      8000000, "one NVIDIA H200, 2026-11-22: 98304x768 takes 74 us, 131072x512 "
               "61 us and 131072x2048 210 us, where copies take 54, 48 and 190 "
               "us");
  row.speedPercent =
      measured<int64_t>(95, "one NVIDIA H200, 2026-11-22: as the time to fill");
  row.lineTime = measured<int64_t>(10000, manyGroups);
  row.groupTime = measured<int64_t>(8000, manyGroups);
  row.bulkTileTime = measured<int64_t>(45000, manyGroups);
  return row;
}

static constexpr SinglePassInnerCalibration table[] = {getH200()};

const SinglePassInnerCalibration *
mlir::fp8moe::getSinglePassInnerCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
