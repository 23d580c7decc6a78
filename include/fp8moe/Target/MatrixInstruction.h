//===- MatrixInstruction.h - What multiplies matrices -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The matrix instructions of each chip, as far as kernels choose by them: one
// row for each pair of element types and kind. Instructions with block scales
// are not listed, as no kernel multiplies with them yet.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_MATRIXINSTRUCTION_H
#define FP8MOE_TARGET_MATRIXINSTRUCTION_H

#include <cstdint>

namespace mlir::fp8moe {

enum class MatrixInstruction {
  /// Hopper: four warps multiply tiles in shared memory into their registers.
  Wgmma,
  /// Blackwell: one thread starts it, sums are in tensor memory.
  Tcgen05,
  /// AMD: a wave multiplies what is in its registers.
  Mfma,
};

/// An element of an operand. FP8 is encoded as the target's flavour says.
enum class MatrixElement { E4M3, E5M2, BF16 };

struct MatrixInstructionInfo {
  MatrixInstruction kind;
  MatrixElement a, b;
  /// Rows of the result, and what its columns are a multiple of.
  int64_t rows, columnStep;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_MATRIXINSTRUCTION_H
