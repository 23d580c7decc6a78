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

/// Needs and times of the single-pass outer kernel and of the one for both axes
/// on a chip.
struct SinglePassOuterCalibration {
  llvm::StringRef chip;
  /// Registers of a thread, at most.
  Figure<int64_t> registers;
  /// Picoseconds in which blocks meet, and the first and the last tiles go
  /// through the roles while nothing else moves.
  Figure<int64_t> fillTime;
  /// Picoseconds that each jagged segment costs whatever its size: blocks look
  /// up one after the other, also those of which they have no tile.
  Figure<int64_t> segmentTime;
  /// Part of a copy's speed that is reached beyond that, in percent: for jagged
  /// segments, for others, and along both axes at once.
  Figure<int64_t> speedPercent, wholeSpeedPercent, bothAxesSpeedPercent;
  /// Rows of nobody that a jagged segment's tiles cost as much time as.
  Figure<int64_t> unusedRows;
  /// Picoseconds of an element whose column begins anywhere in 16 bytes.
  Figure<double> shiftedStoreTime;
  /// Where groups have as many bytes as so many L2 caches, half of what is read
  /// a second time comes from memory.
  Figure<int64_t> halfReadAgain;
};

/// Null where the registers are not known: the kernel is not supported there.
const SinglePassOuterCalibration *
getSinglePassOuterCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSOUTERCALIBRATION_H
