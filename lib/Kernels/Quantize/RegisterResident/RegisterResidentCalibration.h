//===- RegisterResidentCalibration.h - Figures of held slices ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTCALIBRATION_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTCALIBRATION_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Registers of a thread, the most that kernels need.
struct RegisterResidentRegisters {
  /// Registers that hold a slice differ by so many from one entry to the next.
  static constexpr int64_t kStep = 8;

  /// With `kStep` registers that hold a slice, twice as many, and so on.
  int64_t slices[8];
  /// With those that hold a part of a jagged group.
  int64_t jagged;
};

/// Needs and times of register-resident kernels on a chip.
struct RegisterResidentCalibration {
  llvm::StringRef chip;
  Figure<RegisterResidentRegisters> registers;
  /// Picoseconds of a wait for all of a slice under load, up to its stores.
  Figure<double> wait;
  /// Picoseconds of a round trip of later rows, the second one to the cache,
  /// and of one element a thread, of slices whose chunks are not aligned.
  Figure<double> laterTrip, elementTrip;
  /// Picoseconds of finding the bounds of a group: loads that depend on one
  /// another.
  Figure<double> bounds;
};

/// Null where the registers are not known: the kernels are not supported there.
const RegisterResidentCalibration *
getRegisterResidentCalibration(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTCALIBRATION_H
