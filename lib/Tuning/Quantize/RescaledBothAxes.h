//===- RescaledBothAxes.h - What can be rescaled ----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TUNING_QUANTIZE_RESCALEDBOTHAXES_H
#define FP8MOE_LIB_TUNING_QUANTIZE_RESCALEDBOTHAXES_H

#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {

/// Whether columns can be made of rows in FP8: scales are powers of two, rows
/// are whole chunks and contiguous, and so are columns where they are written,
/// aligned where the target needs it (the launch asks where nobody knows).
bool canRescale(const QuantizeWork &columns, const QuantizeWork &rows,
                const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_QUANTIZE_RESCALEDBOTHAXES_H
