//===- ChipTables.h - Tables that rows of chips refer to --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TARGET_CHIPTABLES_H
#define FP8MOE_LIB_TARGET_CHIPTABLES_H

#include "fp8moe/Target/Calibration.h"

namespace mlir::fp8moe {

/// Peak bandwidths of device memory in GB/s (10^9 bytes), from data sheets.
/// TargetInfo uses them, and so do calibrations of chips without a measured
/// copy.
inline constexpr double h200Bandwidth = 4800, h100Bandwidth = 3350,
                        h100PcieBandwidth = 2000, gh200Bandwidth = 4000,
                        h20Bandwidth = 4000, b200Bandwidth = 7700,
                        mi300xBandwidth = 5300, mi355xBandwidth = 8000;

extern const Calibration cpuCalibration, h200Calibration, h100Calibration,
    h100PcieCalibration, gh200Calibration, h20Calibration, b200Calibration,
    mi300xCalibration, mi355xCalibration;

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TARGET_CHIPTABLES_H
