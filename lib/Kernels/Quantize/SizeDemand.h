//===- SizeDemand.h - What kernels rely on of sizes -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SIZEDEMAND_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SIZEDEMAND_H

#include "fp8moe/Kernels/Model/NominalSizes.h"

#include "llvm/Support/ErrorHandling.h"

#include <cstdint>

namespace mlir::fp8moe {

/// Rows, columns, segments and tiles are counted in i32, with room for sums.
inline constexpr int64_t kMaxCount = int64_t(1) << 30;

/// A requirement of a kernel on a size. The compiler has the size as an
/// int64_t, kDynamic where it is not known, and takes the kernel for no
/// candidate where a demand is known to fail; the host has an OpFoldResult, and
/// asks before the launch.
template <typename T> struct SizeDemand {
  enum Kind { MultipleOf, MoreThan, LessThan };
  T size;
  Kind kind;
  int64_t number;
};

/// False where the demand is known to fail.
inline bool mayHold(const SizeDemand<int64_t> &demand) {
  using Demand = SizeDemand<int64_t>;
  if (ShapedType::isDynamic(demand.size))
    return true;
  switch (demand.kind) {
  case Demand::MultipleOf:
    return mayBeMultiple(demand.size, demand.number);
  case Demand::MoreThan:
    return demand.size > demand.number;
  case Demand::LessThan:
    return demand.size < demand.number;
  }
  llvm_unreachable("unknown kind of demand");
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SIZEDEMAND_H
