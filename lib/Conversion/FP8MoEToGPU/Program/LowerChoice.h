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
#include "mlir/Support/LLVM.h"

#include <optional>

namespace mlir::fp8moe {

/// A way to do a piece of work, for above < quantity <= upTo.
struct KernelAlternative {
  const KernelInstance *instance;
  std::optional<int64_t> above = std::nullopt, upTo = std::nullopt;
};

/// Launches the first alternative whose range `quantity` (an index; null when
/// none has a range) is in, and whose kernel takes the addresses, pitches and
/// sizes of the call. Alternatives that take everything stand last, and their
/// ranges exclude each other.
LogicalResult lowerChoice(ArrayRef<KernelAlternative> alternatives,
                          Value quantity, ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_PROGRAM_LOWERCHOICE_H
