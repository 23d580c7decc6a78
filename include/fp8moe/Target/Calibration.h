//===- Calibration.h - Measured and assumed speeds of chips -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Figures for predicted times, each with its source. They decide how fast a
// kernel is, never whether it is legal: TargetInfo.h does that. A kernel family
// has its own calibration in lib/Kernels. There, registers also decide which
// tiles fit, and a family does not run on chips without a row.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_CALIBRATION_H
#define FP8MOE_TARGET_CALIBRATION_H

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace mlir::fp8moe {

enum class FigureSource { Measured, DataSheet, Assumed };

/// A number with its source. `note` gives the card, date and command, the
/// document, or the reason of an assumption.
template <typename T> struct Figure {
  T value = {};
  FigureSource source = FigureSource::Assumed;
  llvm::StringRef note;

  constexpr T operator*() const { return value; }
};

template <typename T>
constexpr Figure<T> measured(T value, llvm::StringLiteral note) {
  return {value, FigureSource::Measured, note};
}
template <typename T>
constexpr Figure<T> fromDataSheet(T value, llvm::StringLiteral note) {
  return {value, FigureSource::DataSheet, note};
}
template <typename T>
constexpr Figure<T> assumed(T value, llvm::StringLiteral note) {
  return {value, FigureSource::Assumed, note};
}

/// Returns the row for a chip in a table of calibrations, or null.
template <typename Table>
const auto *findCalibration(const Table &table, llvm::StringRef chip) {
  const auto *it = std::find_if(
      std::begin(table), std::end(table),
      [&](const auto &calibration) { return calibration.chip == chip; });
  return it == std::end(table) ? nullptr : it;
}

/// Figures that all kernels of a chip have in common.
struct Calibration {
  /// The evidence for results and predicted times of this chip, for reports. It
  /// says if no card ran a kernel, and if times come from data sheets.
  llvm::StringRef evidence;
  /// GB/s (10^9 bytes) that a large device-to-device copy reaches, counting
  /// bytes read and bytes written.
  Figure<double> copyBandwidth;
  /// Picoseconds of a launch of an empty kernel.
  Figure<int64_t> launchTime;
  /// Picoseconds that a copy costs in addition to its own time. Kernels around
  /// it wait for it, it needs workspace, and it evicts data that they share
  /// from the cache.
  Figure<int64_t> copyDependency;
  /// Time of a copy that changes the contiguous dimension, in percent of one
  /// that does not: for elements of one byte, and for larger ones.
  Figure<int64_t> byteTransposePercent, transposePercent;
  /// TFLOP/s of dense matrices (2:4 sparsity not counted); 0 on the CPU.
  Figure<double> fp8TFlops, bf16TFlops;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_CALIBRATION_H
