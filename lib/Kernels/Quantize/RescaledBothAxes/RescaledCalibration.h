//===- RescaledCalibration.h - What rescaling takes -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Times of the two kernels of #fp8moe.rescaled_both_axes on a chip; by default
/// an H100's.
struct RescaledCalibration {
  llvm::StringRef chip = llvm::StringLiteral("sm_90a");
  /// Percent of a copy's speed that each kernel reaches when bandwidth is the
  /// limit: the kernel that quantizes lines, and the kernel that rescales them.
  Figure<int64_t> linesPercent = measured<int64_t>(
      94, "one NVIDIA H100, 2026-11-26: experts, 16 of 8192x5120 and 64 of "
          "7168x2048");
  Figure<int64_t> columnsPercent =
      measured<int64_t>(94, "one NVIDIA H100, 2026-11-26: the same experts");
  /// Picoseconds until all blocks of the first kernel have loads in flight, and
  /// of one line in a block, whatever the number of blocks.
  Figure<int64_t> fillTime = measured<int64_t>(
      8000000, "one NVIDIA H100, 2026-11-26: one expert of 8192x5120 takes 9 "
               "us more than a 16th of 16");
  Figure<int64_t> lineTime =
      assumed<int64_t>(1200000, "a trip to memory and a barrier");
  /// Picoseconds of one atomic maximum of a column's magnitude in memory, for
  /// the whole chip.
  Figure<double> magnitudeTime = measured(
      2.0, "one NVIDIA H100, 2026-11-26: twice as many blocks for 16384 rows");
  /// Picoseconds for each column of a segment with misaligned ends.
  Figure<double> edgeTime = measured(
      130.0, "one NVIDIA H100, 2026-11-26: 16640x5120 in 16 groups takes 14 us "
             "more than such experts, 32768x7168 in 64 groups 57 us");
  /// Picoseconds for each element of columns whose pitch is no multiple of 16.
  Figure<double> unalignedStoreTime =
      assumed(0.6, "as the single-pass outer kernel took when it stored "
                   "parts of 16 bytes");
};

/// Returns null for a chip without these kernels. Chips that were not measured
/// have an H100's times.
inline const RescaledCalibration *getRescaledCalibration(llvm::StringRef chip) {
  static constexpr RescaledCalibration table[] = {
      {},
      {llvm::StringLiteral("sm_100a")},
      {llvm::StringLiteral("gfx942")},
      {llvm::StringLiteral("gfx950")},
  };
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDCALIBRATION_H
