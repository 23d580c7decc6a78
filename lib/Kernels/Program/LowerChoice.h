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

/// The values of the call that ranges compare.
struct RangeOperands {
  /// Elements that share a scale, on average, an index. Null when there is no
  /// range.
  Value meanLength;
  /// Elements across them, and the bytes of each.
  OpFoldResult parallel;
  int64_t elementBytes = 1;
};

/// A way to do a piece of work, where a range holds (null: always).
struct KernelAlternative {
  const KernelInstance *instance;
  RangeAttr range = RangeAttr();
};

/// Whether a range holds, an i1.
Value createIsInRange(RangeAttr range, const RangeOperands &operands,
                      OpBuilder &builder, Location loc);

/// Launches the first alternative whose range holds, and whose kernel takes the
/// addresses, pitches and sizes of the call. Alternatives that take everything
/// stand last, and their ranges of lengths exclude each other.
LogicalResult lowerChoice(ArrayRef<KernelAlternative> alternatives,
                          const RangeOperands &operands,
                          ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LOWERCHOICE_H
