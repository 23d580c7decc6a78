//===- Calibration.h - How fast a chip is -----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Figures of time, each with where it is known from. They say how fast
// something is, never whether it is possible: that is in TargetInfo.h. The
// figures of one family of kernels are in its own calibration, in lib/Kernels.
// That calibration also has registers, which decide what tiles fit; and where
// there is no row for a chip the family does not run.
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

/// A number and where it is known from; `note` is the card, the date and the
/// command, the document, or what it is assumed by.
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

/// The row of a table of calibrations for a chip, or null.
template <typename Table>
const auto *findCalibration(const Table &table, llvm::StringRef chip) {
  const auto *it = std::find_if(
      std::begin(table), std::end(table),
      [&](const auto &calibration) { return calibration.chip == chip; });
  return it == std::end(table) ? nullptr : it;
}

/// Figures that all kernels of a chip have in common.
struct Calibration {
  /// For people: on what results and predicted times of this chip rest. Says so
  /// where no card ran a kernel, and where times come from data sheets.
  llvm::StringRef evidence;
  /// GB/s (10^9 bytes); what a large device-to-device copy reaches, counting
  /// bytes read and bytes written.
  Figure<double> copyBandwidth;
  /// Picoseconds of a launch that does nothing.
  Figure<int64_t> launchTime;
  /// Picoseconds that a copy costs besides its own time: the kernels around it
  /// wait for it, it needs workspace, and it pushes what they share out of the
  /// cache.
  Figure<int64_t> copyDependency;
  /// Time of a copy that changes the contiguous dimension, in percent of one
  /// that does not, for elements of one byte and for larger ones.
  Figure<int64_t> byteTransposePercent, transposePercent;
  /// TFLOP/s of dense matrices (2:4 sparsity not counted); 0 on the CPU.
  Figure<double> fp8TFlops, bf16TFlops;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_CALIBRATION_H
