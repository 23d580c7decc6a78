//===- CDNACalibration.h - Figures of CDNA's matmul -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNACALIBRATION_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNACALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers and times of CDNA's grouped matmul on a chip; by default an
/// MI300X's.
struct CDNACalibration {
  /// No card was measured. Shares of the main loop come from a small model of a
  /// compute unit, which ignores caches and power.
  static constexpr llvm::StringLiteral loopModel =
      "a model of four SIMDs that issue the emitted main loop, without limits "
      "of caches: an upper bound";

  llvm::StringRef chip = llvm::StringLiteral("gfx942");

  /// Registers of a thread, accumulators included.
  Figure<int64_t> registers =
      measured<int64_t>(256, "LLVM 22: two waves of a SIMD may have so many");
  /// Fraction of the data sheet's rate that a dense matmul sustains.
  Figure<double> sustainedRate = measured(
      0.487, "one MI300X, hipBLASLt, dense FP8: 1273 TFLOP/s (published)");
  /// Fraction of the main loop's time that the matrix cores are busy, with a
  /// ping-pong schedule of eight waves, and with four waves.
  Figure<double> pingPongShare = assumed(0.99, loopModel);
  Figure<double> plainShare = assumed(0.75, loopModel);
  /// Bytes a cycle of a compute unit: from L2, and from and to shared memory.
  Figure<double> cacheBytesPerCycle = fromDataSheet(
      53.9, "AMD CDNA 3 white paper: 2048 bytes a cycle for 38 compute units");
  Figure<double> sharedReadPerCycle =
      fromDataSheet(128.0, "32 banks of 4 bytes");
  Figure<double> sharedWritePerCycle =
      fromDataSheet(128.0, "32 banks of 4 bytes");
  /// Bytes a cycle that a compute unit's vector units transpose on their way to
  /// shared memory.
  Figure<double> transposedPerCycle = fromDataSheet(
      256.0, "four SIMDs of 16 lanes: v_perm_b32 makes a word of each");
  /// Fraction of the shared memory and transposition time that products do not
  /// hide.
  Figure<double> overlapLoss =
      assumed(0.25, "as an H200 loses between two launches");
  /// Picoseconds from a tile's first load to its first product.
  Figure<int64_t> fillTime =
      assumed<int64_t>(1000000, "about one access to memory");
};

constexpr CDNACalibration getMI355X() {
  CDNACalibration row;
  row.chip = llvm::StringLiteral("gfx950");
  row.sustainedRate = measured(
      0.642, "one MI355X, hipBLASLt, dense FP8 of 8192^3: 3233 TFLOP/s "
             "(published)");
  row.plainShare = assumed(0.85, CDNACalibration::loopModel);
  row.cacheBytesPerCycle = fromDataSheet(
      64.0, "AMD CDNA 4 white paper: 2048 bytes a cycle for 32 compute units");
  row.sharedReadPerCycle = fromDataSheet(256.0, "64 banks of 4 bytes");
  return row;
}

/// Returns null for chips with unknown registers, where the kernel is not
/// supported.
inline const CDNACalibration *getCDNACalibration(llvm::StringRef chip) {
  static constexpr CDNACalibration table[] = {CDNACalibration(), getMI355X()};
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNACALIBRATION_H
