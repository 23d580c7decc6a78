//===- HopperCalibration.cpp - Figures of Hopper's matmul -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperCalibration.h"

using namespace mlir::fp8moe;

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

/// Since producers tell cooperative consumers their tiles. Chosen tiles are the
/// best ones, or within 2% of these but for two weight gradients (5%, 7%).
/// Fast shared tiles, which gained less, would be predicted 4% too fast by it.
static constexpr llvm::StringLiteral toldTiles =
    "one NVIDIA H100, 2026-11-27: six promoted tiles of ten shapes in both "
    "modes, benchmarks/grouped_matmul.py --tile";

static constexpr HopperCalibration getH200() {
  HopperCalibration row;
  row.chip = llvm::StringLiteral("sm_90a");
  row.loopRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: loops of 192 accumulators do not spill");
  row.epilogueRegisters = measured<int64_t>(
      72, "ptxas of CUDA 13: epilogues of 160 accumulators do not spill, of "
          "192 they do");
  row.addendRegisters = measured<int64_t>(
      40, "ptxas of CUDA 13: epilogues of 128 accumulators with an addend do "
          "not spill, of 160 they do");
  row.sustainedRate = measured(0.7525, sweep);
  row.operandSlowdown = measured(8.0, sweep);
  row.sharedBytesHidden = measured(160.0, sweep);
  row.sharedSlowdown = measured(0.4, sweep);
  row.sharedBytesPerCycle =
      fromDataSheet(128.0, "CUDA C++ Programming Guide: 32 banks of 4 bytes");
  row.lineBytesHidden = measured(88.0, bothCards);
  row.lineSlowdown = measured(0.8, bothCards);
  row.productBytesPerCycle = fromDataSheet(
      4096.0, "64 rows by columns and 32 bytes take columns / 2 cycles");
  row.turnTime = measured<int64_t>(64000, sweep);
  row.writeTime = measured(84.0, sweep);
  row.narrowWrite = measured(1.2, sweep);
  row.exposedTime = measured(33.0, sweep);
  row.competingTime = measured(21.5, promotedTiles);
  row.overlapLoss = measured(0.25, sweep);
  row.groupsApart = measured(0.11, sweep);
  row.fewInstructions = measured(1.06, sweep);
  row.sharedStage = measured(1.05, sweep);
  row.promotedShared = measured(0.88, promotedTiles);
  row.promotedGap = measured(26.6, promotedTiles);
  row.promotedApart = measured(1.1, promotedTiles);
  row.promotedExposed = measured(19.0, toldTiles);
  row.promotedAlone = measured(1.35, sweep);
  return row;
}

static constexpr HopperCalibration table[] = {getH200()};

const HopperCalibration *
mlir::fp8moe::getHopperCalibration(llvm::StringRef chip) {
  return findCalibration(table, chip);
}
