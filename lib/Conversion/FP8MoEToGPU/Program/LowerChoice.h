//===- LowerChoice.h - One of several kernels, at run time ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_PROGRAM_LOWERCHOICE_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_PROGRAM_LOWERCHOICE_H

#include "FP8MoEToGPU/Program/KernelLowering.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

namespace mlir::fp8moe {

/// A way to do a piece of work, where a quantity is in a range (null: always).
struct KernelAlternative {
  const KernelInstance *instance;
  RangeAttr range = RangeAttr();
};

/// Whether `quantity` (an index) is in a range.
Value createIsInRange(RangeAttr range, Value quantity, OpBuilder &builder,
                      Location loc);

/// Launches the first alternative whose range `quantity` (an index; null when
/// none has a range) is in, and whose kernel takes the addresses, pitches and
/// sizes of the call. Alternatives that take everything stand last, and their
/// ranges exclude each other.
LogicalResult lowerChoice(ArrayRef<KernelAlternative> alternatives,
                          Value quantity, ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_PROGRAM_LOWERCHOICE_H
