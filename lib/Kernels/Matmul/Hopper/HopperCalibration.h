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

/// Needs and times of Hopper's grouped matmul, on the cards that each figure
/// names.
struct HopperCalibration {
  /// Fitted together.
  static constexpr llvm::StringLiteral sweep =
      "one NVIDIA H200 at its power limit, 2026-11-22: every tile of eight "
      "shapes in both modes, benchmarks/grouped_matmul.py --sweep";
  /// The shapes 98304,1536,6144,20 and 24576,4096,2880,10, and eight of SHAPES,
  /// none of which judge the choice (SWEEP_SHAPES). Contractions of 2880 bytes,
  /// whose rows straddle lines, decide these figures.
  static constexpr llvm::StringLiteral bothCards =
      "one NVIDIA H100 and one H200, 2026-11-25: every tile of ten shapes in "
      "both modes, benchmarks/grouped_matmul.py --sweep --shape";
  /// An H100 loses 14% to 19% with tiles of their own where these read the most
  /// from L2; the factor is closer to the H200's, so that they serve where they
  /// are best on both. All are relative to times of fast tiles, which were 6%
  /// shorter in these runs than predicted.
  static constexpr llvm::StringLiteral promotedTiles =
      "one NVIDIA H100 and one H200, 2026-11-25: five tiles of the six "
      "shapes that docs/results shows with promoted accumulation";
  /// Since producers tell cooperative consumers their tiles. Chosen tiles are
  /// the best ones, or within 2% of these but for two weight gradients (5%,
  /// 7%). Fast shared tiles, which gained less, would be predicted 4% too fast
  /// by it.
  static constexpr llvm::StringLiteral toldTiles =
      "one NVIDIA H100, 2026-11-27: six promoted tiles of ten shapes in both "
      "modes, benchmarks/grouped_matmul.py --tile";

  llvm::StringRef chip = llvm::StringLiteral("sm_90a");

  /// Registers beside the accumulators in the loop and in the epilogue, and how
  /// many more an epilogue takes that loads what it accumulates into.
  Figure<int64_t> loopRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: loops of 192 accumulators do not spill");
  Figure<int64_t> epilogueRegisters = measured<int64_t>(
      72, "ptxas of CUDA 13: epilogues of 160 accumulators do not spill, of "
          "192 they do");
  Figure<int64_t> addendRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: epilogues of 128 accumulators with an addend do "
          "not spill, of 160 they do");

  /// Part of the data sheet's rate that is left at the power limit, for a tile
  /// that reads nothing, and how much a tile's stages slow down per 1/rows +
  /// 1/columns.
  Figure<double> sustainedRate = measured(0.7525, sweep);
  Figure<double> operandSlowdown = measured(8.0, sweep);
  /// Bytes that shared memory moves in a cycle, and how many it may have to
  /// move in a cycle of the tensor cores, for them and for the copies, before
  /// these wait: the power limit slows them, too. Bytes beyond that slow a
  /// stage.
  Figure<double> sharedBytesPerCycle =
      fromDataSheet(128.0, "CUDA C++ Programming Guide: 32 banks of 4 bytes");
  Figure<double> sharedBytesHidden = measured(160.0, sweep);
  Figure<double> sharedSlowdown = measured(0.4, sweep);
  /// Bytes of lines that a multiprocessor may have to read from L2 in a cycle
  /// of the tensor cores before these wait, and how much a stage slows down
  /// when lines that rows straddle make it twice of that, or of what whole
  /// lines take.
  Figure<double> lineBytesHidden = measured(88.0, bothCards);
  Figure<double> lineSlowdown = measured(0.8, bothCards);
  /// Bytes of both operands that a cycle of the tensor cores multiplies, each
  /// with each.
  Figure<double> productBytesPerCycle = fromDataSheet(
      4096.0, "64 rows by columns and 32 bytes take columns / 2 cycles");
  /// Picoseconds between two tiles when one warpgroup writes while the other
  /// multiplies.
  Figure<int64_t> turnTime = measured<int64_t>(64000, sweep);
  /// Picoseconds per element of a tile that a warpgroup takes to write a bf16
  /// result, beside the other one's multiplications, and the factor of boxes
  /// narrower than 128 bytes.
  Figure<double> writeTime = measured(84.0, sweep);
  Figure<double> narrowWrite = measured(1.2, sweep);
  /// Picoseconds per element that the tensor cores wait for the result to be
  /// written, when nobody else multiplies, and when somebody competes.
  Figure<double> exposedTime = measured(33.0, sweep);
  Figure<double> competingTime = measured(21.5, promotedTiles);
  /// How much of the shorter of two times is not hidden by the longer one.
  Figure<double> overlapLoss = measured(0.25, sweep);
  /// How much the groups of K, which differ in length, are like
  /// groups that run one after the other: the tiles of a long one may be too
  /// few for all multiprocessors, or one too many.
  Figure<double> groupsApart = measured(0.11, sweep);
  /// Factor of a stage when a warpgroup that has the tensor cores alone
  /// multiplies 64 rows, so that half as many instructions are under way.
  Figure<double> fewInstructions = measured(1.06, sweep);
  /// Factor of a stage that two warpgroups share: both wait for it at once.
  Figure<double> sharedStage = measured(1.05, sweep);
  /// Factor of a stage when its products are added in f32: by warpgroups that
  /// share it, with what they wait for each other in columns that could be
  /// multiplied meanwhile; by those that have tiles of their own; and by one
  /// that has the tensor cores alone.
  Figure<double> promotedShared = measured(0.88, promotedTiles);
  Figure<double> promotedGap = measured(26.6, promotedTiles);
  Figure<double> promotedApart = measured(1.1, promotedTiles);
  Figure<double> promotedAlone = measured(1.35, sweep);
  /// exposedTime of tiles whose products are added in f32.
  Figure<double> promotedExposed = measured(19.0, toldTiles);
};

/// Null where the registers are not known: the kernel is not supported there.
inline const HopperCalibration *getHopperCalibration(llvm::StringRef chip) {
  static constexpr HopperCalibration table[1];
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERCALIBRATION_H
