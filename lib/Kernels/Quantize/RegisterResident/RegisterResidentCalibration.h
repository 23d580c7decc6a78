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

/// Needs and times of register-resident kernels on a chip; by default an
/// H200's.
struct RegisterResidentCalibration {
  /// Registers without spilling, fitted: 54, and nine for every eight that
  /// hold.
  static constexpr RegisterResidentRegisters ptxas = {
      {63, 72, 81, 90, 99, 108, 117, 126}, 90};
  static constexpr llvm::StringLiteral leastRegret =
      "one NVIDIA H200, 2026-11-21: least regret on "
      "benchmarks/calibration_shapes.json";

  llvm::StringRef chip = llvm::StringLiteral("sm_90a");
  Figure<RegisterResidentRegisters> registers =
      measured(ptxas, "ptxas of CUDA 13");
  /// Picoseconds of a wait for all of a slice under load, up to its stores.
  Figure<double> wait =
      measured(850000.0, "one NVIDIA H200, 2026-11-21: 331 waves of teams of "
                         "256 take 312 us, and others a little less");
  /// Picoseconds of a round trip of later rows, the second one to the cache,
  /// and of one element a thread, of slices whose chunks are not aligned.
  Figure<double> laterTrip = measured(500000.0, leastRegret);
  Figure<double> elementTrip = measured(180000.0, leastRegret);
  /// Picoseconds of finding the bounds of a group: loads that depend on one
  /// another.
  Figure<double> bounds = measured(1700000.0, leastRegret);
};

/// The registers that LLVM 22 assigns: `.vgpr_count` in the notes of 672
/// kernels. They are all teams, of 16 and 32 bits, with one chunk to as many as
/// a thread holds, with whole chunks and without; jagged groups with a known
/// number of columns, with an unknown one, and padded.
constexpr RegisterResidentCalibration
getRegisterResidentAMD(llvm::StringLiteral chip,
                       RegisterResidentRegisters registers) {
  RegisterResidentCalibration row = {
      chip, measured(registers, "LLVM 22, 2026-11-23")};
  row.elementTrip = assumed(0.0, "accesses may begin anywhere");
  return row;
}

/// Null where the registers are not known: the kernels are not supported there.
inline const RegisterResidentCalibration *
getRegisterResidentCalibration(llvm::StringRef chip) {
  using Row = RegisterResidentCalibration;
  static constexpr Row table[] = {
      Row(),
      {llvm::StringLiteral("sm_100a"), assumed(Row::ptxas, "as for sm_90a")},
      getRegisterResidentAMD("gfx942",
                             {{47, 56, 73, 88, 105, 113, 116, 121}, 156}),
      getRegisterResidentAMD("gfx950",
                             {{46, 55, 72, 88, 104, 112, 115, 126}, 155}),
  };
  return findCalibration(table, chip);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTCALIBRATION_H
