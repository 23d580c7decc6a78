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

/// Times of the two kernels of #fp8moe.rescaled_both_axes on a chip.
struct RescaledCalibration {
  llvm::StringRef chip;
  /// Part of a copy's speed that each reaches when bandwidth is the limit, in
  /// percent: the one that quantizes lines, and the one that rescales them.
  Figure<int64_t> linesPercent, columnsPercent;
  /// Picoseconds until all blocks of the first one have lines on their way, and
  /// of a line in a block, however many there are.
  Figure<int64_t> fillTime, lineTime;
  /// Picoseconds of a magnitude that a block combines with others' in memory,
  /// for all of the chip.
  Figure<double> magnitudeTime;
  /// Picoseconds of a column of a segment whose ends are not aligned.
  Figure<double> edgeTime;
  /// Picoseconds of an element of columns whose pitch is no multiple of 16.
  Figure<double> unalignedStoreTime;
};

/// Null for a chip without these kernels.
const RescaledCalibration *getRescaledCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDCALIBRATION_H
