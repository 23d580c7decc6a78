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

/// The properties of a matmul that its tiles depend on. kDynamic sizes stand
/// for their nominal values.
struct MatmulWork : KernelWorkBase<MatmulWork> {
  GroupedDim groupedDim = GroupedDim::M;
  /// M-grouped: rows of all groups, columns, contraction. K-grouped: rows
  /// and columns of each group's result, contraction of all groups.
  int64_t rows = 1, columns = 1, contraction = 1;
  int64_t groups = 1;
  /// Whether a matmul without K groups is a weight gradient, so that its
  /// contraction counts tokens. Otherwise its rows do. With K groups the
  /// contraction always counts tokens.
  bool contractsTokens = false;
  MatrixElement a = MatrixElement::E4M3, b = MatrixElement::E4M3;
  int64_t elementBytes = 1, resultBytes = 2;
  bool promoted = false;
  /// Whether all rows are one group, without offsets.
  bool dense = false;
  /// Whether a tensor of the result's type is added.
  bool accumulates = false;
  /// Whether scales belong to blocks along the contraction.
  bool hasBlockScales = false;
  /// Which operands are MN-major.
  bool mnMajorA = false, mnMajorB = false;

  bool isMGrouped() const { return groupedDim == GroupedDim::M; }

  /// Elements from one row of an operand in memory to the next, if the layout
  /// gives explicit strides. Otherwise rows are adjacent.
  int64_t pitchA = ShapedType::kDynamic, pitchB = ShapedType::kDynamic;

  int64_t getPitch(bool isA) const {
    if (int64_t pitch = isA ? pitchA : pitchB; ShapedType::isStatic(pitch))
      return pitch;
    if (!(isA ? mnMajorA : mnMajorB))
      return contraction;
    return isA ? rows : columns;
  }

  /// Return the elements of both operands, and of the result.
  double countOperands() const {
    double weights = static_cast<double>(columns) * contraction;
    return static_cast<double>(rows) * contraction +
           (isMGrouped() ? weights * groups : weights);
  }
  double countResults() const {
    double results = static_cast<double>(rows) * columns;
    return isMGrouped() ? results : results * groups;
  }

  /// Returns the size that counts tokens.
  int64_t &getTokens() {
    return isMGrouped() && !contractsTokens ? rows : contraction;
  }
};

/// Returns the matrix instruction's name of an element type.
MatrixElement getMatrixElement(Type type);

/// Whether partial FP8 sums are promoted: added to f32 accumulators outside the
/// tensor cores before the contraction ends. Not needed for bf16, which loses
/// no bits there.
bool isPromoted(MatmulOpInterface op);

/// An operand's type, its contracted dimension, and the dimension that the
/// result keeps.
struct OperandDims {
  RankedTensorType type;
  int64_t contracted, kept;

  static OperandDims get(MatmulOpInterface op, bool isFirst);
};

/// Whether matrix instructions may read the operand MN-major, with the result's
/// rows (A) or columns (B) contiguous instead of the contraction. That needs
/// bf16 and, for A, rows without groups.
bool mayBeMNMajor(MatmulOpInterface op, bool isFirst);

/// Whether the operand may be MN-major and its layout is MN-major, not
/// contiguous along the contraction.
bool isMNMajor(MatmulOpInterface op, bool isFirst);

/// Returns the properties that decide whether a kernel exists: groups, elements
/// and scales, without sizes and layouts.
MatmulWork getMatmulKind(MatmulOpInterface op);
MatmulWork getMatmulWork(MatmulOpInterface op);

/// Returns why a matmul cannot exchange its operands to write its transpose, (A
/// B)^T = B^T A^T (rule G11 of docs/reference/semantics.md). Empty if it can.
StringRef explainNotExchangeable(MatmulOpInterface op);

/// Replaces unknown sizes by nominal ones.
MatmulWork withNominalSizes(MatmulWork work);

/// Rows that the tiles of an M-grouped matmul cover in excess, as the last tile
/// of every group is partly filled. With several groups of unknown sizes the
/// sum varies. `least` and `most` are one standard deviation below and above
/// its expected value.
struct RaggedRows {
  int64_t least = 0, most = 0;

  static RaggedRows get(int64_t tileRows, int64_t groups);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MATMUL_MATMULWORK_H
