//===- ResidentStripCalibration.h - Figures of held strips ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers of a thread, the most that kernels need.
struct ResidentStripRegisters {
  /// The registers that hold a strip: fewer leave too few bytes on their way.
  static constexpr int64_t kHeld[] = {64, 128};
  /// With that many, of 16-bit and of 32-bit inputs.
  int64_t narrow[2], wide[2];
};

/// Needs and times of resident-strip kernels on a chip.
struct ResidentStripCalibration {
  llvm::StringRef chip;
  Figure<ResidentStripRegisters> registers;
  /// Picoseconds of a trip to memory under load.
  Figure<int64_t> memoryLatency;
  /// Trips of a piece besides its data: bounds of groups; and, of one that
  /// others share a strip with, from its magnitudes to those of all.
  Figure<int64_t> boundsTrips, exchangeTrips;
  /// Picoseconds that a cooperative launch takes more than another one.
  Figure<int64_t> cooperativeTime;
  /// Part of a copy's speed that is reached when bandwidth is the limit, in
  /// percent.
  Figure<int64_t> speedPercent;
};

/// Null where the registers are not known, or accesses need alignment: the
/// kernels are not supported there.
const ResidentStripCalibration *
getResidentStripCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPCALIBRATION_H
