//===- LowerRows.h - Launches of operations on rows ----------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_ROWS_LOWERROWS_H
#define FP8MOE_LIB_KERNELS_ROWS_LOWERROWS_H

#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Rows/RowSource.h"
#include "Kernels/Rows/RowWork.h"

namespace mlir::fp8moe {

/// The operands of an operation on rows, for a launch that computes them.
struct RowOperands {
  RowSourceProblem problem;
  RowSizes<OpFoldResult> sizes;
  SmallVector<Value> pointers;

  static RowOperands get(RowOpInterface op, ProgramLowering &lowering);
};

/// Launches the kernel that writes the result where `when` (an i1, or null for
/// always) holds.
void launchRows(RowOpInterface op, Value when, ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_ROWS_LOWERROWS_H
