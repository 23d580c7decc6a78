//===- HopperCalibration.h - Figures of Hopper's matmul ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERCALIBRATION_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers and times of Hopper's grouped matmul, on the cards that each
/// figure names.
struct HopperCalibration {
  /// Provenance of figures that were fitted together.
  static constexpr llvm::StringLiteral sweep =
      "one NVIDIA H200 at its power limit, 2026-11-22: every tile of eight "
      "shapes in both modes, benchmarks/grouped_matmul.py --sweep";
  /// The shapes 98304,1536,6144,20 and 24576,4096,2880,10, and eight of SHAPES.
  /// None of them judges the choice (SWEEP_SHAPES). Contractions of 2880 bytes,
  /// whose rows straddle lines, determine these figures.
  static constexpr llvm::StringLiteral bothCards =
      "one NVIDIA H100 and one H200, 2026-11-25: every tile of ten shapes in "
      "both modes, benchmarks/grouped_matmul.py --sweep --shape";
  /// Relative to times of fast tiles, which were 6% shorter in these runs than
  /// predicted.
  static constexpr llvm::StringLiteral promotedTiles =
      "one NVIDIA H100 and one H200, 2026-11-25: five tiles of the six "
      "shapes that docs/results shows with promoted accumulation";

  llvm::StringRef chip = llvm::StringLiteral("sm_90a");

  /// Registers of a thread besides accumulators: in the main loop, in the
  /// epilogue, and additionally in an epilogue that loads an addend.
  Figure<int64_t> loopRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: loops of 192 accumulators do not spill");
  Figure<int64_t> epilogueRegisters = measured<int64_t>(
      72, "ptxas of CUDA 13: epilogues of 160 accumulators do not spill, of "
          "192 they do");
  Figure<int64_t> addendRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: epilogues of 128 accumulators with an addend do "
          "not spill, of 160 they do");

  /// Fraction of the data sheet's rate at the power limit, for an infinitely
  /// large tile. And the slowdown of a stage per 1/rows + 1/columns of its
  /// tile.
  Figure<double> sustainedRate = measured(0.7525, sweep);
  Figure<double> operandSlowdown = measured(8.0, sweep);
  /// Shared memory bandwidth in bytes a cycle. Most bytes that reads and copies
  /// may move in a cycle of the tensor cores without stalls; the power limit
  /// slows the tensor cores, so it exceeds the bandwidth. Slowdown of a stage
  /// by the bytes beyond that.
  Figure<double> sharedBytesPerCycle =
      fromDataSheet(128.0, "CUDA C++ Programming Guide: 32 banks of 4 bytes");
  Figure<double> sharedBytesHidden = measured(160.0, sweep);
  Figure<double> sharedSlowdown = measured(0.4, sweep);
  /// Bytes of L2 lines that an SM may read in a cycle of the tensor cores
  /// without stalls. And the slowdown of a stage when rows that straddle lines
  /// make it twice this, or twice what whole lines take.
  Figure<double> lineBytesHidden = measured(88.0, bothCards);
  Figure<double> lineSlowdown = measured(0.8, bothCards);
  /// Product of the bytes of A and of B that the tensor cores multiply in a
  /// cycle.
  Figure<double> productBytesPerCycle = fromDataSheet(
      4096.0, "64 rows by columns and 32 bytes take columns / 2 cycles");
  /// Picoseconds between two tiles of a PingPong schedule, where one warpgroup
  /// writes while the other multiplies.
  Figure<int64_t> turnTime = measured<int64_t>(64000, sweep);
  /// Picoseconds per element for a warpgroup to write a bf16 result while the
  /// other one multiplies, and the factor for store boxes narrower than 128
  /// bytes.
  Figure<double> writeTime = measured(84.0, sweep);
  Figure<double> narrowWrite = measured(1.2, sweep);
  /// Picoseconds per element of an epilogue that the tensor cores wait for, as
  /// no other warpgroup multiplies (Cooperative).
  Figure<double> exposedTime = measured(33.0, sweep);
  /// Fraction of the shorter of two times that the longer one does not hide.
  Figure<double> overlapLoss = measured(0.25, sweep);
  /// Weight, in K-grouped matmuls, of waves counted group by group against
  /// waves of all tiles together. Groups differ in length, so tiles of a long
  /// one may not fill all SMs, or need another wave.
  Figure<double> groupsApart = measured(0.11, sweep);
  /// Slowdown of a PingPong stage with one 64-row instruction at a time, as
  /// half as many instructions are in flight.
  Figure<double> fewInstructions = measured(1.06, sweep);
  /// Slowdown of a stage that two warpgroups share: both wait for it at once.
  Figure<double> sharedStage = measured(1.05, sweep);
  /// Slowdown of a stage with promoted accumulation. For Cooperative
  /// warpgroups, it has a factor, and their wait for each other in units of
  /// columns. A factor for PingPong ones.
  Figure<double> promotedShared = measured(0.88, promotedTiles);
  Figure<double> promotedGap = measured(26.6, promotedTiles);
  Figure<double> promotedAlone = measured(1.35, sweep);
};

/// Returns null for chips with unknown registers, where the kernel is not
/// supported.
inline const HopperCalibration *getHopperCalibration(llvm::StringRef chip) {
  static constexpr HopperCalibration table[1];
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERCALIBRATION_H
