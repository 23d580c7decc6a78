//===- SinglePassOuterCalibration.h - Figures of a single pass --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers and times of the single-pass outer kernel and of the one for both
/// axes on an H200. Times were fitted to benchmarks/calibration_shapes.json,
/// before loads in flight were limited: today's kernel is faster by 1% to 15%.
/// sm_100a is not in the table, as ptxas needs more registers there for some
/// kernels.
struct SinglePassOuterCalibration {
  llvm::StringRef chip = llvm::StringLiteral("sm_90a");
  /// Registers of a thread, at most.
  Figure<int64_t> registers = measured<int64_t>(128, "ptxas of CUDA 13");
  /// Picoseconds of the grid barrier, and of filling and draining the pipeline
  /// with the first and the last tiles.
  Figure<int64_t> fillTime = measured<int64_t>(
      2600000, "one NVIDIA H200, 2026-11-21: 512 rows of 128 columns take 6.5 "
               "us, 4096 of 2048 take 13.3 us where a copy takes 7.4 us");
  /// Picoseconds of a jagged segment of any size: blocks look up segments one
  /// after the other, including those without tiles of theirs.
  Figure<int64_t> segmentTime =
      measured<int64_t>(175000, "one NVIDIA H200, 2026-11-22: "
                                "benchmarks/calibration_shapes.json");
  /// Percent of a copy's speed beyond these times: for jagged segments, for
  /// uniform ones, and for both axes at once.
  Figure<int64_t> speedPercent = measured<int64_t>(
      84, "one NVIDIA H200, 2026-11-22: 16640x5120, 32768x7168 and "
          "131072x2048 in 8 or 16 groups");
  Figure<int64_t> wholeSpeedPercent = measured<int64_t>(
      91, "one NVIDIA H200, 2026-11-22: 89 to 93 for 64 experts of 2048x7168 "
          "and 128 of 2048x1408");
  Figure<int64_t> bothAxesSpeedPercent = measured<int64_t>(
      80, "one NVIDIA H200, 2026-11-22: 111 us for 16640x5120 in 16 groups, "
          "313 us for 32768x7168, where copies of 4 bytes per element take 81 "
          "and 221 us");
  /// Additional rows that a jagged segment costs, as its tiles cover rows
  /// outside of it.
  Figure<int64_t> unusedRows = measured<int64_t>(
      20, "segments begin in the middle of a sector of rows and end in the "
          "middle of a tile: on average 80 rows of their tiles are not theirs, "
          "which cost about a quarter of what others do on an NVIDIA H200");
  /// Picoseconds for each element of a misaligned output column.
  Figure<double> shiftedStoreTime = measured(
      0.08, "one NVIDIA H100, 2026-11-28: 16641 rows of 5120 columns take 7 us "
            "more than 16640 in 16 groups");
  /// Bytes of a group, in L2 caches, at which half of the second read comes
  /// from memory.
  Figure<int64_t> halfReadAgain = measured<int64_t>(
      3, "one NVIDIA H200, 2026-11-22: BothAxesAreNearTheMeasured in "
         "unittests/Kernels/Quantize/QuantizeTilesTest.cpp");
};

/// Returns the figures of the kernel on a chip. Returns null where its
/// registers per thread were not counted: it is not supported there.
inline const SinglePassOuterCalibration *
getSinglePassOuterCalibration(llvm::StringRef chip) {
  static constexpr SinglePassOuterCalibration table[1];
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERCALIBRATION_H
