//===- CDNACalibration.cpp - Figures of CDNA's matmul ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/CDNACalibration.h"

using namespace mlir::fp8moe;

/// No card was measured: shares of the main loop are those of a small model of
/// a compute unit, which knows neither caches nor power.
static constexpr llvm::StringLiteral loopModel =
    "a model of four SIMDs that issue the emitted main loop, without limits of "
    "caches: an upper bound";

static constexpr CDNACalibration getMI300X() {
  CDNACalibration row;
  row.chip = llvm::StringLiteral("gfx942");
  row.largeRegisters =
      measured<int64_t>(256, "LLVM 22: two waves of a SIMD may have so many");
  row.smallRegisters = row.largeRegisters;
  row.sustainedRate = measured(
      0.487, "one MI300X, hipBLASLt, dense FP8: 1273 TFLOP/s (published)");
  row.pingPongShare = assumed(0.99, loopModel);
  row.plainShare = assumed(0.75, loopModel);
  row.cacheBytesPerCycle = fromDataSheet(
      53.9, "AMD CDNA 3 white paper: 2048 bytes a cycle for 38 compute units");
  row.sharedReadPerCycle = fromDataSheet(128.0, "32 banks of 4 bytes");
  row.sharedWritePerCycle = row.sharedReadPerCycle;
  row.transposedPerCycle = fromDataSheet(
      256.0, "four SIMDs of 16 lanes: v_perm_b32 makes a word of each");
  row.overlapLoss = assumed(0.25, "as an H200 loses between two launches");
  row.fillTime = assumed<int64_t>(1000000, "about one access to memory");
  return row;
}

static constexpr CDNACalibration getMI355X() {
  CDNACalibration row = getMI300X();
  row.chip = llvm::StringLiteral("gfx950");
  row.sustainedRate = measured(
      0.642, "one MI355X, hipBLASLt, dense FP8 of 8192^3: 3233 TFLOP/s "
             "(published)");
  row.plainShare = assumed(0.85, loopModel);
  row.cacheBytesPerCycle = fromDataSheet(
      64.0, "AMD CDNA 4 white paper: 2048 bytes a cycle for 32 compute units");
  row.sharedReadPerCycle = fromDataSheet(256.0, "64 banks of 4 bytes");
  return row;
}

static constexpr CDNACalibration table[] = {getMI300X(), getMI355X()};

const CDNACalibration *mlir::fp8moe::getCDNACalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
