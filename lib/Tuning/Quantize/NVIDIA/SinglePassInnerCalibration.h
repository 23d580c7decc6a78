//===- SinglePassInnerCalibration.h - Figures of whole columns --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERCALIBRATION_H
#define FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// What the kernel that takes whole columns needs and takes on a chip.
struct SinglePassInnerCalibration {
  llvm::StringRef chip;
  /// Of a thread, at most.
  Figure<int64_t> registers;
  /// Picoseconds until the first column has come, and after the last one has;
  /// the same in a cluster, whose rings hold little more than a column.
  Figure<int64_t> fillTime, clusterFillTime;
  /// Part of a copy's speed that is reached beyond that, in percent.
  Figure<int64_t> speedPercent;
  /// Picoseconds of a multiprocessor for a line, for the end of a group, and
  /// for a bulk tile.
  Figure<int64_t> lineTime, groupTime, bulkTileTime;
};

/// Null where the registers are not known: the kernel is not supported there.
const SinglePassInnerCalibration *
getSinglePassInnerCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_SINGLEPASSINNERCALIBRATION_H
