//===- QuantizeModels.h - What the host counts as the compiler --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Models of quantizations by which the compiler ranks tiles and the host
// launches them, for sizes of either: T is int64_t or HostSize.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_QUANTIZE_QUANTIZEMODELS_H
#define FP8MOE_TUNING_QUANTIZE_QUANTIZEMODELS_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// The length of slices on average; jagged segments are at least one.
template <typename T>
T computeMeanLength(bool jagged, const T &rows, const T &segments) {
  return jagged ? ceilDiv(rows, segments) : rows;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_QUANTIZE_QUANTIZEMODELS_H
