//===- GeneralLaunch.h - Launches kernels that take everything --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_GENERALLAUNCH_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_GENERALLAUNCH_H

#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/QuantizeLaunch.h"

namespace mlir::fp8moe {

/// The body of a kernel that takes every address, pitch and size.
using GeneralSchedule = function_ref<void(QuantizeKernel &kernel)>;

/// Builds the kernel, or finds it, and launches it with `threads` threads for
/// each of `countWorkTiles` of segments and columns.
void launchGeneral(
    const QuantizeInstance &instance, StringRef name, int64_t threads,
    GeneralSchedule schedule,
    function_ref<HostSize(const HostSize &, const HostSize &)> countWorkTiles,
    Value when, ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_GENERALLAUNCH_H
