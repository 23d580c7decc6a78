//===- NominalSizes.h - What unknown sizes stand for ------------*- C++ -*-===//
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

/// Rows that a dynamic token count stands for in predictions: a large training
/// microbatch. Only ratios between choices matter, and they hardly depend on
/// it.
constexpr int64_t kNominalTokens = 16384;

/// Jagged groups or experts that an unknown number of them stands for: those of
/// one device when experts are spread over devices.
constexpr int64_t kNominalSegments = 8;

/// Upper bounds in the models of a size, a number of slices with a scale each,
/// a number of elements and the bytes that a kernel moves: more than any device
/// holds, and so little that no time in picoseconds overflows.
constexpr int64_t kMostModelledSize = int64_t(1) << 26;
constexpr int64_t kMostModelledSlices = int64_t(1) << 40;
constexpr int64_t kMostModelledElements = int64_t(1) << 46;
constexpr int64_t kMostModelledBytes = int64_t(1) << 50;

/// A size in a model: the nominal one when it is not known, and never 0 or more
/// than `most`.
inline int64_t getModelledSize(int64_t size, int64_t nominal, int64_t most) {
  return std::clamp<int64_t>(ShapedType::isDynamic(size) ? nominal : size, 1,
                             most);
}

/// Whether a size may be a multiple: that of one which is not known shows at
/// run time.
inline bool mayBeMultiple(int64_t size, int64_t of) {
  return ShapedType::isDynamic(size) || size % of == 0;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_NOMINALSIZES_H
