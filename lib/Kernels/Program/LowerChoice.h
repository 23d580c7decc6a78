//===- LowerChoice.h - One of several kernels, at run time ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_LOWERCHOICE_H
#define FP8MOE_LIB_KERNELS_PROGRAM_LOWERCHOICE_H

#include "Kernels/Program/LoweringTable.h"

namespace mlir::fp8moe {

/// The sizes of a call that are compared with ranges.
struct RangeOperands {
  /// Mean number of elements that share a scale, an index. Null when no
  /// alternative has a range.
  Value meanLength;
  /// Elements in the other dimension, and the bytes of an element.
  OpFoldResult parallel;
  int64_t elementBytes = 1;
};

/// A kernel for an operation, and the range of sizes it is for (null: all).
struct KernelAlternative {
  const KernelInstance *instance;
  RangeAttr range = RangeAttr();
};

/// Returns an i1: whether the call's sizes are in the range.
Value createIsInRange(RangeAttr range, const RangeOperands &operands,
                      OpBuilder &builder, Location loc);

/// Launches the first alternative whose range holds and whose kernel supports
/// the call's addresses, pitches and sizes. Alternatives that support every
/// call stand last, with disjoint ranges of lengths.
LogicalResult lowerChoice(ArrayRef<KernelAlternative> alternatives,
                          const RangeOperands &operands,
                          ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LOWERCHOICE_H
