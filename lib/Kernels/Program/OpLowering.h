//===- OpLowering.h - What becomes of an operation --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_OPLOWERING_H
#define FP8MOE_LIB_KERNELS_PROGRAM_OPLOWERING_H

#include "fp8moe/Kernels/Model/KernelWork.h"
#include "mlir/IR/Operation.h"

namespace mlir::fp8moe {
class ProgramLowering;

/// How operations of one kind become launches, or a view. At most one matches
/// an operation.
class OpLowering {
public:
  virtual ~OpLowering() = default;

  /// The operations that it matches, in the plural, as diagnostics list them.
  virtual StringRef getName() const = 0;
  virtual bool matches(Operation *op) const = 0;
  /// Whether results get a buffer of their own, which launches write. Others
  /// are views.
  virtual bool writesResults() const = 0;
  /// Whether operands and results may be block scales in tiles, which have no
  /// strides.
  virtual bool takesTiledScales() const { return false; }
  virtual LogicalResult lower(Operation *op,
                              ProgramLowering &lowering) const = 0;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_OPLOWERING_H
