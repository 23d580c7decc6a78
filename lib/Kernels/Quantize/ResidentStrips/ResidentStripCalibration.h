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

/// Needs and times of resident-strip kernels. No card was measured: trips are
/// as those of kernels that read twice.
struct ResidentStripCalibration {
  llvm::StringRef chip;
  /// Registers without spilling: the most of kernels with known and unknown
  /// sizes, padded and not, of both FP8 types, and both chips.
  Figure<ResidentStripRegisters> registers = measured(
      ResidentStripRegisters{{168, 232}, {192, 256}}, "LLVM 22, 2026-11-25");
  /// Picoseconds of a trip to memory under load.
  Figure<int64_t> memoryLatency = assumed<int64_t>(800000, "as an H200");
  /// Trips of a piece besides its data: bounds of groups; and, of one that
  /// others share a strip with, from its magnitudes to those of all.
  Figure<int64_t> boundsTrips = assumed<int64_t>(3, "as an H200");
  Figure<int64_t> exchangeTrips = assumed<int64_t>(
      4, "a store on its way, a look that comes too early, one that does not, "
         "and the pause between them");
  /// Picoseconds that a cooperative launch takes more than another one.
  Figure<int64_t> cooperativeTime = assumed<int64_t>(
      5000000, "such launches go through a queue of their own");
  /// Part of a copy's speed that is reached when bandwidth is the limit, in
  /// percent.
  Figure<int64_t> speedPercent =
      assumed<int64_t>(90, "as an H200's transposed kernels");
};

/// Null where the registers are not known, or accesses need alignment: the
/// kernels are not supported there.
inline const ResidentStripCalibration *
getResidentStripCalibration(llvm::StringRef chip) {
  static constexpr ResidentStripCalibration table[] = {
      {llvm::StringLiteral("gfx942")}, {llvm::StringLiteral("gfx950")}};
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPCALIBRATION_H
