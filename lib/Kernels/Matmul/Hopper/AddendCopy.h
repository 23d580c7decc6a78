//===- AddendCopy.h - What f32 sums begin with ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_ADDENDCOPY_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_ADDENDCOPY_H

#include "Kernels/Program/ProgramLowering.h"

#include <array>

namespace mlir::fp8moe {

/// Sizes of a stack of matrices, one a group, and strides of rows and of
/// groups, in elements. Columns are contiguous.
template <typename T> struct AddendCopySizes {
  T groups, rows, columns;
  T addendRow, addendGroup;
  T resultRow, resultGroup;

  static constexpr auto members() {
    using S = AddendCopySizes;
    return std::array{&S::groups,     &S::rows,        &S::columns,
                      &S::addendRow,  &S::addendGroup, &S::resultRow,
                      &S::resultGroup};
  }
};

/// Launches a copy of f32 `addend` to `result`. The kernel exits at once where
/// both are the same memory. `multiprocessors` (index) is the number of SMs.
void launchAddendCopy(Location loc, Value addend, Value result,
                      const AddendCopySizes<OpFoldResult> &sizes,
                      Value multiprocessors, Value condition,
                      ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_ADDENDCOPY_H
