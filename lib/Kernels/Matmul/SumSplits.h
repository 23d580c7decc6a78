//===- SumSplits.h - Adds the parts of a contraction ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_SUMSPLITS_H
#define FP8MOE_LIB_KERNELS_MATMUL_SUMSPLITS_H

#include "Kernels/Program/ProgramLowering.h"

#include <array>

namespace mlir::fp8moe {

/// Sizes and row strides, in elements, of the matrices of a split-K sum.
/// Columns are contiguous.
template <typename T> struct SplitSizes {
  T rows, columns;
  /// Row stride of the products of each split. Those of all splits are
  /// contiguous.
  T productRow;
  T resultRow, addendRow;

  static constexpr auto members() {
    using S = SplitSizes;
    return std::array{&S::rows, &S::columns, &S::productRow, &S::resultRow,
                      &S::addendRow};
  }
};

/// result = products[0] + products[1] + ... + addend, in this order, in f32. A
/// bf16 result is rounded once, at the end. Rows of all matrices begin at
/// multiples of 16 bytes.
struct SplitSum {
  /// Type of result and addend: bf16 or f32.
  Type resultType;
  int64_t splits;
  Value products, result;
  /// Null for none.
  Value addend;
  SplitSizes<OpFoldResult> sizes;
};

/// Launches a kernel that adds the products of all splits, where the condition
/// holds.
void launchSplitSum(Location loc, const SplitSum &sum, Value condition,
                    ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_SUMSPLITS_H
