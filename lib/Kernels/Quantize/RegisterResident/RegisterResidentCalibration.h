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

/// Registers of a thread, as the maximum over all kernels.
struct RegisterResidentRegisters {
  /// Step of `slices`: the registers that hold data of a slice grow by it from
  /// one entry to the next.
  static constexpr int64_t kStep = 8;

  /// Registers of a thread with `kStep` registers of data, 2 * `kStep`, and so
  /// on.
  int64_t slices[8];
  /// Registers of a thread in kernels for jagged groups.
  int64_t jagged;
};

/// Registers and times of register-resident kernels on a chip; by default an
/// H200's.
struct RegisterResidentCalibration {
  /// Registers without spilling, fitted: 54, and nine for every eight that hold
  /// data.
  static constexpr RegisterResidentRegisters ptxas = {
      {63, 72, 81, 90, 99, 108, 117, 126}, 90};
  static constexpr llvm::StringLiteral leastRegret =
      "one NVIDIA H200, 2026-11-21: least regret on "
      "benchmarks/calibration_shapes.json";

  llvm::StringRef chip = llvm::StringLiteral("sm_90a");
  Figure<RegisterResidentRegisters> registers =
      measured(ptxas, "ptxas of CUDA 13");
  /// Picoseconds from the loads of a slice to its stores, under load.
  Figure<double> wait =
      measured(850000.0, "one NVIDIA H200, 2026-11-21: 331 waves of teams of "
                         "256 take 312 us, and others a little less");
  /// Picoseconds of a round trip for rows that registers do not hold; their
  /// second read is from the cache. And of one element a thread, for slices
  /// whose chunks are misaligned.
  Figure<double> laterTrip = measured(500000.0, leastRegret);
  Figure<double> elementTrip = measured(180000.0, leastRegret);
  /// Picoseconds to find the bounds of a group, by dependent loads.
  Figure<double> bounds = measured(1700000.0, leastRegret);
};

/// The registers that LLVM 22 assigns: `.vgpr_count` in the notes of 672
/// kernels. They cover all team sizes, 16 and 32 bits, each possible number of
/// chunks a thread, and whole and partial chunks. Jagged groups have known and
/// unknown numbers of columns, and padding.
constexpr RegisterResidentCalibration
getRegisterResidentAMD(llvm::StringLiteral chip,
                       RegisterResidentRegisters registers) {
  RegisterResidentCalibration row = {
      chip, measured(registers, "LLVM 22, 2026-11-23")};
  row.elementTrip = assumed(0.0, "accesses may begin anywhere");
  return row;
}

/// Returns null for chips with unknown registers, where the kernels are not
/// supported.
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
