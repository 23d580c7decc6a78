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

/// Needs and times of Hopper's grouped matmul on a chip.
struct HopperCalibration {
  llvm::StringRef chip;

  /// Registers beside the accumulators in the loop and in the epilogue, and how
  /// many more an epilogue takes that loads what it accumulates into.
  Figure<int64_t> loopRegisters, epilogueRegisters, addendRegisters;

  /// Part of the data sheet's rate that is left at the power limit, for a tile
  /// that reads nothing, and how much a tile's stages slow down per 1/rows +
  /// 1/columns.
  Figure<double> sustainedRate, operandSlowdown;
  /// Bytes that shared memory moves in a cycle, and how many it may have to
  /// move in a cycle of the tensor cores, for them and for the copies, before
  /// these wait: the power limit slows them, too. Bytes beyond that slow a
  /// stage.
  Figure<double> sharedBytesPerCycle, sharedBytesHidden, sharedSlowdown;
  /// Bytes of lines that a multiprocessor may have to read from L2 in a cycle
  /// of the tensor cores before these wait, and how much a stage slows down
  /// when lines that rows straddle make it twice of that, or of what whole
  /// lines take.
  Figure<double> lineBytesHidden, lineSlowdown;
  /// Bytes of both operands that a cycle of the tensor cores multiplies, each
  /// with each.
  Figure<double> productBytesPerCycle;
  /// Picoseconds between two tiles when one warpgroup writes while the other
  /// multiplies.
  Figure<int64_t> turnTime;
  /// Picoseconds per element of a tile that a warpgroup takes to write a bf16
  /// result, beside the other one's multiplications, and the factor of boxes
  /// narrower than 128 bytes.
  Figure<double> writeTime, narrowWrite;
  /// Picoseconds per element that the tensor cores wait for the result to be
  /// written, when nobody else multiplies, and when somebody competes.
  Figure<double> exposedTime, competingTime;
  /// How much of the shorter of two times is not hidden by the longer one.
  Figure<double> overlapLoss;
  /// How much the groups of K, which differ in length, are like
  /// groups that run one after the other: the tiles of a long one may be too
  /// few for all multiprocessors, or one too many.
  Figure<double> groupsApart;
  /// Factor of a stage when a warpgroup that has the tensor cores alone
  /// multiplies 64 rows, so that half as many instructions are under way.
  Figure<double> fewInstructions;
  /// Factor of a stage that two warpgroups share: both wait for it at once.
  Figure<double> sharedStage;
  /// Factor of a stage when its products are added in f32: by warpgroups that
  /// share it, with what they wait for each other in columns that could be
  /// multiplied meanwhile; by those that have tiles of their own; and by one
  /// that has the tensor cores alone.
  Figure<double> promotedShared, promotedGap, promotedApart, promotedAlone;
  /// exposedTime of tiles whose products are added in f32.
  Figure<double> promotedExposed;
};

/// Null where the registers are not known: the kernel is not supported there.
const HopperCalibration *getHopperCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERCALIBRATION_H
