//===- TwoPassCalibration.h - Figures of two passes -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers of a thread for 16-bit and 32-bit inputs, the most that the
/// kernels of test/Integration/programs need.
struct TwoPassRegisters {
  int64_t inner[2], outer[2], outerTransposing[2], innerTransposing[2];
};

/// Registers and times of two-pass kernels on a chip; by default an H200's.
struct TwoPassCalibration {
  static constexpr TwoPassRegisters ptxas = {
      {72, 96}, {120, 124}, {120, 128}, {128, 144}};

  llvm::StringRef chip = llvm::StringLiteral("sm_90a");
  Figure<TwoPassRegisters> registers = measured(ptxas, "ptxas of CUDA 13");
  /// Picoseconds of a round trip to memory and to the L2 cache, under load.
  Figure<int64_t> memoryLatency = measured<int64_t>(
      800000, "one NVIDIA H200, 2026-11-21: a jagged group of 131072 rows and "
              "2048 columns runs as 32 blocks, far from the bandwidth, in 1671 "
              "us, that is 2 * 1024 round trips of 256 threads * 64 bytes");
  Figure<int64_t> cacheLatency = measured<int64_t>(
      300000, "one NVIDIA H200, 2026-11-21: 131072 rows of 64 bf16 take 43 us "
              "in 36 waves, each a round trip to memory and one to the cache");
  /// Additional memory round trips of a work tile of jagged groups: loading the
  /// offsets, combining them, and the loads that depend on the bounds.
  Figure<int64_t> jaggedRoundTrips =
      measured<int64_t>(3, "one NVIDIA H200, 2026-11-21: 64 groups of "
                           "16640x5120 take 340 us in 89 waves of little data");
  /// Percent of a copy's speed that a transposing kernel reaches when bandwidth
  /// is the limit.
  Figure<int64_t> transposedSpeedPercent =
      measured<int64_t>(90, "one NVIDIA H200, 2026-11-22: "
                            "benchmarks/calibration_shapes.json");
  /// Picoseconds of an element that is stored alone, not in a vector.
  Figure<double> unalignedStoreTime =
      measured(8.0, "one NVIDIA H200, 2026-11-22: 2504x1408 in 10 groups take "
                    "33 us where aligned columns would take 7 us");
};

constexpr TwoPassCalibration getTwoPassAMD(llvm::StringLiteral chip) {
  TwoPassRegisters registers = {{84, 98}, {122, 128}, {132, 166}, {124, 156}};
  TwoPassCalibration row = {
      chip, measured(registers, "LLVM 22 for gfx942, vector registers")};
  row.unalignedStoreTime = assumed(0.0, "stores may begin anywhere");
  return row;
}

/// Returns null for chips with unknown registers, where the kernels are not
/// supported.
inline const TwoPassCalibration *getTwoPassCalibration(llvm::StringRef chip) {
  using Row = TwoPassCalibration;
  static constexpr Row table[] = {
      Row(),
      {llvm::StringLiteral("sm_100a"), assumed(Row::ptxas, "as for sm_90a")},
      getTwoPassAMD("gfx942"),
      getTwoPassAMD("gfx950"),
  };
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H
