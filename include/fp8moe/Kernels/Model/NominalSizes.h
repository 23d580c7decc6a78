//===- NominalSizes.h - Assumed values of unknown sizes ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_NOMINALSIZES_H
#define FP8MOE_KERNELS_MODEL_NOMINALSIZES_H

#include "mlir/IR/BuiltinTypeInterfaces.h"

#include <algorithm>

namespace mlir::fp8moe {

/// Rows that predictions assume for a dynamic token count: a large training
/// microbatch. Only ratios between choices matter, and these hardly depend on
/// the value.
constexpr int64_t kNominalTokens = 16384;

/// Number of jagged groups or experts that predictions assume if unknown: those
/// of one device when experts are spread over devices.
constexpr int64_t kNominalSegments = 8;

/// Upper bounds in cost models: of a size, of slices with one scale each, of
/// elements, and of bytes moved. No time in picoseconds overflows below them.
/// The last three are more than any device holds.
constexpr int64_t kMostModelledSize = int64_t(1) << 26;
constexpr int64_t kMostModelledSlices = int64_t(1) << 40;
constexpr int64_t kMostModelledElements = int64_t(1) << 46;
constexpr int64_t kMostModelledBytes = int64_t(1) << 50;

/// Returns a size for cost models, clamped to [1, `most`]. Unknown sizes have
/// the nominal value.
inline int64_t getModelledSize(int64_t size, int64_t nominal, int64_t most) {
  return std::clamp<int64_t>(ShapedType::isDynamic(size) ? nominal : size, 1,
                             most);
}

/// Whether `size` may be a multiple of `of`. True for unknown sizes, which are
/// checked at run time.
inline bool mayBeMultiple(int64_t size, int64_t of) {
  return ShapedType::isDynamic(size) || size % of == 0;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_NOMINALSIZES_H
