//===- MatmulWork.h - Matmuls as models see them ----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MATMUL_MATMULWORK_H
#define FP8MOE_KERNELS_MATMUL_MATMULWORK_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelWork.h"

namespace mlir::fp8moe {

/// A matmul as far as tiles depend on it. Sizes may be kDynamic and
/// stand for their nominal values then.
struct MatmulWork : KernelWorkBase<MatmulWork> {
  GroupedDim groupedDim = GroupedDim::M;
  /// M-grouped: rows of all groups, columns, contraction. K-grouped: rows
  /// and columns of each group's result, contraction of all groups.
  int64_t rows = 1, columns = 1, contraction = 1;
  int64_t groups = 1;
  /// A dense weight gradient: the contraction counts tokens, as always where
  /// groups are contracted; else the rows do.
  bool contractsTokens = false;
  MatrixElement a = MatrixElement::E4M3, b = MatrixElement::E4M3;
  int64_t elementBytes = 1, resultBytes = 2;
  bool promoted = false;
  /// One group of all rows, without offsets.
  bool dense = false;
  /// A tensor of the result's type is added.
  bool accumulates = false;
  /// Scales are those of blocks along the contraction.
  bool hasBlockScales = false;
  /// Operands that are MN-major.
  bool mnMajorA = false, mnMajorB = false;

  bool isMGrouped() const { return groupedDim == GroupedDim::M; }

  /// Elements from one row of an operand in memory to the next, where its
  /// layout says; else rows follow each other.
  int64_t pitchA = ShapedType::kDynamic, pitchB = ShapedType::kDynamic;

  int64_t getPitch(bool isA) const {
    if (int64_t pitch = isA ? pitchA : pitchB; ShapedType::isStatic(pitch))
      return pitch;
    if (!(isA ? mnMajorA : mnMajorB))
      return contraction;
    return isA ? rows : columns;
  }

  /// The size that is as long as there are tokens.
  int64_t &getTokens() {
    return isMGrouped() && !contractsTokens ? rows : contraction;
  }
};

/// The name of an operand's elements in a matrix instruction.
MatrixElement getMatrixElement(Type type);

/// Whether sums leave the tensor cores before they are complete; those of bf16
/// lose nothing there.
bool isPromoted(MatmulOpInterface op);

/// An operand: its type, and the dimensions that are contracted and that the
/// result has, too.
struct OperandDims {
  RankedTensorType type;
  int64_t contracted, kept;

  static OperandDims get(MatmulOpInterface op, bool isFirst);
};

/// Whether matrix instructions may read the operand MN-major, that is with the
/// result's rows (A) or columns (B) contiguous instead of the contraction: bf16
/// and, for A, with rows that no group cuts.
bool mayBeMNMajor(MatmulOpInterface op, bool isFirst);

/// Whether the operand is one that may be, and lies so and not along the
/// contraction.
bool isMNMajor(MatmulOpInterface op, bool isFirst);

/// The properties that decide whether there is a kernel: groups, elements and
/// scales, without sizes and layouts.
MatmulWork getMatmulKind(MatmulOpInterface op);
MatmulWork getMatmulWork(MatmulOpInterface op);

/// Known sizes for those that are not.
MatmulWork withNominalSizes(MatmulWork work);

/// Rows that the tiles of an M-grouped matmul cover beyond those that there
/// are: the last tile of every group is partly filled. With several groups,
/// whose sizes nobody knows, the sum varies; these are one standard deviation
/// below and above what is expected.
struct RaggedRows {
  int64_t least = 0, most = 0;

  static RaggedRows get(int64_t tileRows, int64_t groups);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MATMUL_MATMULWORK_H
