//===- HeldBothAxesCalibration.h - What holding tiles takes -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESCALIBRATION_H
#define FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// What the kernel of #fp8moe.held_both_axes takes on a chip.
struct HeldBothAxesCalibration {
  llvm::StringRef chip;
  /// Part of a copy's speed that it reaches when bandwidth is the limit, in
  /// percent.
  Figure<int64_t> speedPercent;
  /// Picoseconds from its launch until the columns of the first tiles are
  /// written.
  Figure<int64_t> fillTime;
  /// Picoseconds of a tile, however few columns it has, and of each column.
  Figure<int64_t> tileTime, columnTime;
  /// Picoseconds of an element where there are enough of them for all threads.
  Figure<int64_t> elementTime;
  /// Part of a tile's time by which it is longer where all blocks had tiles of
  /// experts that end in the next round, and hold two tiles.
  Figure<double> cutExpertTime;
  /// Part of the memory's peak that a kernel for each axis reaches between its
  /// launches, in percent.
  Figure<int64_t> apartPercent;
};

/// Null for a chip without this kernel.
const HeldBothAxesCalibration *getHeldBothAxesCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_QUANTIZE_NVIDIA_HELDBOTHAXESCALIBRATION_H
