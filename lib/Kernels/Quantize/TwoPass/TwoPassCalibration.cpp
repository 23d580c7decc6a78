//===- TwoPassCalibration.cpp - Figures of kernels that read twice --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/TwoPass/TwoPassCalibration.h"

using namespace mlir::fp8moe;

static constexpr TwoPassRegisters ptxasRegisters = {
    {72, 96}, {120, 124}, {120, 128}, {128, 144}};
static constexpr TwoPassRegisters llvmRegisters = {
    {84, 98}, {122, 128}, {132, 166}, {124, 156}};

static constexpr TwoPassCalibration getH200() {
  TwoPassCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.registers = measured(ptxasRegisters, "ptxas of CUDA 13");
  row.memoryLatency = measured<int64_t>(
      800000, "one NVIDIA H200, 2026-11-21: a jagged group of 131072 rows and "
              "2048 columns runs as 32 blocks, far from the bandwidth, in 1671 "
              "us, that is 2 * 1024 round trips of 256 threads * 64 bytes");
  row.cacheLatency = measured<int64_t>(
      300000, "one NVIDIA H200, 2026-11-21: 131072 rows of 64 bf16 take 43 us "
              "in 36 waves, each a round trip to memory and one to the cache");
  row.jaggedRoundTrips =
      measured<int64_t>(3, "one NVIDIA H200, 2026-11-21: 64 groups of "
                           "16640x5120 take 340 us in 89 waves of little data");
  row.transposedSpeedPercent =
      measured<int64_t>(90, "one NVIDIA H200, 2026-11-22: "
                            "benchmarks/calibration_shapes.json");
  row.unalignedStoreTime =
      measured(8.0, "one NVIDIA H200, 2026-11-22: 2504x1408 in 10 groups take "
                    "33 us where aligned columns would take 7 us");
  return row;
}

/// Times of a chip that was not measured are an H200's.
static constexpr TwoPassCalibration asH200(llvm::StringLiteral chip,
                                           Figure<TwoPassRegisters> registers) {
  TwoPassCalibration h200 = getH200(), row;
  row.chip = chip;
  row.registers = registers;
  row.memoryLatency = assumed(*h200.memoryLatency, "as an H200");
  row.cacheLatency = assumed(*h200.cacheLatency, "as an H200");
  row.jaggedRoundTrips = assumed(*h200.jaggedRoundTrips, "as an H200");
  row.transposedSpeedPercent =
      assumed(*h200.transposedSpeedPercent, "as an H200");
  row.unalignedStoreTime = assumed(*h200.unalignedStoreTime, "as an H200");
  return row;
}

/// Columns need no alignment where accesses of 16 bytes may begin anywhere.
static constexpr TwoPassCalibration asAMD(llvm::StringLiteral chip,
                                          Figure<TwoPassRegisters> registers) {
  TwoPassCalibration row = asH200(chip, registers);
  row.unalignedStoreTime = assumed(0.0, "stores may begin anywhere");
  return row;
}

static constexpr TwoPassCalibration table[] = {
    getH200(),
    asH200("sm_100a", assumed(ptxasRegisters, "as ptxas for sm_90a")),
    asAMD("gfx942", measured(llvmRegisters, "LLVM 22, vector registers")),
    asAMD("gfx950", assumed(llvmRegisters, "as LLVM for gfx942")),
};

const TwoPassCalibration *
mlir::fp8moe::getTwoPassCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
