//===- Calibration.cpp - Measured and assumed speeds of chips -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChipTables.h"

using namespace mlir::fp8moe;

/// A data sheet's peak that a copy reaches, when no copy was measured: an
/// H200's is 4248 of 4800 GB/s.
static constexpr double copyFraction = 0.88;

static constexpr Figure<double> assumeCopy(double peakBandwidth) {
  return assumed(peakBandwidth * copyFraction,
                 "0.88 of the data sheet's peak, as an H200 reaches");
}

static constexpr Figure<int64_t> assumeDependency() {
  return assumed<int64_t>(
      5000000, "about the error of a prediction for a small kernel, so that no "
               "copy is made to win less than that");
}

/// Only ranks choices: the path is the reference and is not tuned.
constexpr Calibration mlir::fp8moe::cpuCalibration = {
    "the reference; no times are predicted",
    assumed(38.4, "one DDR5 channel"),
    assumed<int64_t>(2500000, "as an H200"),
    assumed<int64_t>(0, "kernels run one after the other"),
    assumed<int64_t>(100, "a scalar loop in any order"),
    assumed<int64_t>(100, "a scalar loop in any order"),
    assumed(0.0, "no matrix instructions are used"),
    assumed(0.0, "no matrix instructions are used"),
};

constexpr Calibration mlir::fp8moe::h200Calibration = {
    "run and checked on H100 and H200 cards; predicted times are those of a "
    "model fitted to an H200",
    measured(4248.0, "one NVIDIA H200, by 2026-11-21: 2 GiB, CUDA events, "
                     "median"),
    measured<int64_t>(2500000,
                      "one NVIDIA H200, by 2026-11-21: 2 to 3 us from one "
                      "small kernel to the next in a stream"),
    assumeDependency(),
    measured<int64_t>(205, "one NVIDIA H200, by 2026-11-21: 194 to 206 from "
                           "16640x5120 to 131072x2048"),
    measured<int64_t>(125, "one NVIDIA H200, by 2026-11-21: 122 to 125 from "
                           "16640x5120 to 131072x2048"),
    fromDataSheet(1979.0, "NVIDIA H200: 3958 with sparsity"),
    fromDataSheet(989.5, "NVIDIA H200: 1979 with sparsity"),
};

/// A chip that was not measured: an H200's times, with its own bandwidth and
/// rates.
static constexpr Calibration
asH200(llvm::StringLiteral evidence, double peakBandwidth,
       Figure<double> fp8TFlops, Figure<double> bf16TFlops,
       Figure<int64_t> copyDependency = assumeDependency()) {
  return {evidence,
          assumeCopy(peakBandwidth),
          assumed(*h200Calibration.launchTime, "as an H200"),
          copyDependency,
          assumed(*h200Calibration.byteTransposePercent, "as an H200"),
          assumed(*h200Calibration.transposePercent, "as an H200"),
          fp8TFlops,
          bf16TFlops};
}

/// Replaces the assumed speed of a copy by a measured one.
static constexpr Calibration withCopy(Calibration calibration,
                                      Figure<double> copyBandwidth) {
  calibration.copyBandwidth = copyBandwidth;
  return calibration;
}

constexpr Calibration mlir::fp8moe::h100Calibration = withCopy(
    asH200("run and checked on H100 cards; predicted times are those of a "
           "model fitted to an H200, with the speed of an H100's memory",
           h100Bandwidth, fromDataSheet(1979.0, "NVIDIA H100 SXM"),
           fromDataSheet(989.5, "NVIDIA H100 SXM")),
    measured(3010.0, "one NVIDIA H100 80GB HBM3 (700 W), 2026-11-26: 0.7 and "
                     "0.8 GB, benchmarks/quantize.py"));

static constexpr llvm::StringLiteral hopperEvidence =
    "never run on this card, whose chip H100 and H200 have, too; predicted "
    "times are those of an H200's model with figures from data sheets";

constexpr Calibration mlir::fp8moe::h100PcieCalibration =
    asH200(hopperEvidence, h100PcieBandwidth,
           fromDataSheet(1513.0, "NVIDIA H100 PCIe: 3026 with sparsity"),
           fromDataSheet(756.5, "NVIDIA H100 PCIe: 1513 with sparsity"));

constexpr Calibration mlir::fp8moe::gh200Calibration =
    asH200(hopperEvidence, gh200Bandwidth,
           fromDataSheet(1979.0, "NVIDIA GH200: 3958 with sparsity"),
           fromDataSheet(989.5, "NVIDIA GH200: 1979 with sparsity"));

constexpr Calibration mlir::fp8moe::h20Calibration =
    asH200(hopperEvidence, h20Bandwidth, fromDataSheet(296.0, "NVIDIA H20"),
           fromDataSheet(148.0, "NVIDIA H20"));

constexpr Calibration mlir::fp8moe::b200Calibration = asH200(
    "assembled by ptxas, never run; predicted times are those of an H200's "
    "model with figures from data sheets",
    b200Bandwidth,
    fromDataSheet(4500.0, "NVIDIA HGX B200: 72 PFLOP/s of 8 with sparsity"),
    fromDataSheet(2250.0, "NVIDIA HGX B200: 36 PFLOP/s of 8 with sparsity"));

static constexpr llvm::StringLiteral amdEvidence =
    "checked in an emulator, never run on a card; predicted times are those "
    "of an H200's model with figures from data sheets";

/// The published ablation of a layer on an MI300X: with the copy before the
/// quantization no tile helped, without it a large one made the whole step 4.7
/// times as fast.
static constexpr Figure<int64_t> amdDependency = assumed<int64_t>(
    15000000, "three times an H200's: on an MI300X a copy cost more than its "
              "own time (published)");

constexpr Calibration mlir::fp8moe::mi300xCalibration = asH200(
    amdEvidence, mi300xBandwidth, fromDataSheet(2614.9, "AMD Instinct MI300X"),
    fromDataSheet(1307.4, "AMD Instinct MI300X"), amdDependency);

constexpr Calibration mlir::fp8moe::mi355xCalibration = asH200(
    amdEvidence, mi355xBandwidth, fromDataSheet(5033.2, "AMD Instinct MI355X"),
    fromDataSheet(2516.6, "AMD Instinct MI355X"), amdDependency);
