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

/// Needs and times of CDNA's grouped matmul on a chip.
struct CDNACalibration {
  llvm::StringRef chip;

  /// Registers of a thread, accumulators included, when a wave has 128 results
  /// a lane and when it has 64.
  Figure<int64_t> largeRegisters, smallRegisters;
  /// Part of the data sheet's rate that a dense matmul sustains.
  Figure<double> sustainedRate;
  /// Part of the main loop's time that the matrix cores are busy, when eight
  /// waves take turns and when four do not.
  Figure<double> pingPongShare, plainShare;
  /// Bytes that a compute unit gets from its second-level cache in a cycle, and
  /// that its shared memory gives and takes.
  Figure<double> cacheBytesPerCycle, sharedReadPerCycle, sharedWritePerCycle;
  /// Bytes that its vector units pack along the contraction in a cycle, on
  /// their way to shared memory.
  Figure<double> transposedPerCycle;
  /// How much of the time of both is not hidden by the products.
  Figure<double> overlapLoss;
  /// Picoseconds from a tile's first load to its first product.
  Figure<int64_t> fillTime;
};

/// Null where the registers are not known: the kernel is not supported there.
const CDNACalibration *getCDNACalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNACALIBRATION_H
