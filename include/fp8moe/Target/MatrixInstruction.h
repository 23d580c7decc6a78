//===- MatrixInstruction.h - Kinds of matrix instructions -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef FP8MOE_TARGET_MATRIXINSTRUCTION_H
#define FP8MOE_TARGET_MATRIXINSTRUCTION_H

namespace mlir::fp8moe {

/// How a chip multiplies matrices: FP8 of either format by FP8, and bf16 by
/// bf16. Block scales are a feature of their own.
enum class MatrixInstruction {
  /// The CPU has none.
  None,
  /// Hopper: four warps multiply tiles in shared memory into their registers.
  Wgmma,
  /// Blackwell: one thread starts the instruction, and accumulators are in
  /// tensor memory.
  Tcgen05,
  /// AMD: a wave multiplies operands in its registers.
  Mfma,
};

/// The element type of an operand. FP8 has the target's flavour.
enum class MatrixElement { E4M3, E5M2, BF16 };

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_MATRIXINSTRUCTION_H
