//===- TwoPassCalibration.h - Figures of kernels that read twice *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers of a thread for 16-bit and 32-bit inputs, the most that the
/// kernels of test/Integration/programs need.
struct TwoPassRegisters {
  int64_t inner[2], outer[2], outerTransposing[2], innerTransposing[2];
};

/// Needs and times of two-pass kernels on a chip.
struct TwoPassCalibration {
  llvm::StringRef chip;
  Figure<TwoPassRegisters> registers;
  /// Picoseconds of a round trip to memory and to the L2 cache, under load.
  Figure<int64_t> memoryLatency, cacheLatency;
  /// Round trips of a work tile of jagged groups besides its data: loading the
  /// offsets, combining them, and what waits for the bounds.
  Figure<int64_t> jaggedRoundTrips;
  /// Part of a copy's speed that a transposed kernel reaches when it is bound
  /// by bandwidth, in percent.
  Figure<int64_t> transposedSpeedPercent;
  /// Picoseconds of an element that is stored by itself.
  Figure<double> unalignedStoreTime;
};

/// Null where the registers are not known: the kernels are not supported there.
const TwoPassCalibration *getTwoPassCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSCALIBRATION_H
