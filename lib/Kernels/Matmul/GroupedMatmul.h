//===- GroupedMatmul.h - One matmul per jagged group ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_GROUPEDMATMUL_H
#define FP8MOE_LIB_KERNELS_MATMUL_GROUPEDMATMUL_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"

#include <array>

namespace mlir::fp8moe {

/// Sizes of a grouped matmul in elements. The result has `rows` by `columns`.
/// Both operands are K-major (contiguous along the contraction) unless they are
/// MN-major.
template <typename T> struct GroupedMatmulSizes {
  /// M-grouped: the rows of all groups together. K-grouped: the rows of the
  /// result of one group.
  T rows;
  T columns;
  /// Extent in memory of the contracted dimension; of all groups together
  /// where it is K-grouped.
  T contraction;
  T groups;
  /// Stride of the result's rows (M-grouped).
  T resultRow;
  /// Strides of the addend's rows and, K-grouped, of its groups.
  T addendRow, addendGroup;

  static constexpr auto members() {
    using S = GroupedMatmulSizes;
    return std::array{&S::rows,      &S::columns,   &S::contraction, &S::groups,
                      &S::resultRow, &S::addendRow, &S::addendGroup};
  }
};

/// Layout of block scales: none, strided lines (X1), scale tiles (X6), or scale
/// tiles that begin anew with each group (X7). Labels are those of
/// semantics.md.
enum class BlockScales { None, Lines, Tiles, GroupTiles };

/// result = (a . b) * scaleA[row] * scaleB[column] + addend, for each group.
/// Both scales may be missing, or only scaleB.
struct GroupedMatmulProblem {
  /// FP8 or bf16; both have the same width.
  Type aType, bType;
  /// bf16 or f32.
  Type resultType;
  GroupedDim groupedDim = GroupedDim::M;
  /// There is one group of all rows, and no offsets are read. Requires
  /// groupedDim M; b is one matrix.
  bool dense = false;
  /// Groups of the contraction begin at multiples of this, with zeros between.
  int64_t padding = 1;
  /// Whether a and b have scales. If a has none, b has none either (G10).
  bool hasScalesA = true, hasScalesB = true;
  /// Block scales of each operand, which replace scales of rows and columns.
  /// Both operands have them, or neither (G9).
  BlockScales blockScalesA = BlockScales::None,
              blockScalesB = BlockScales::None;
  /// Whether products are divided by the scales, as data was multiplied by
  /// them.
  bool reciprocalScales = false;
  /// Whether partial sums over 128 bytes of the contraction are added in f32
  /// (promoted accumulation).
  bool promoted = false;
  /// Whether an addend of the result's type is added.
  bool accumulates = false;
  /// The operand, of bf16, is contiguous along the result's rows (A) or columns
  /// (B) instead of the contraction.
  bool mnMajorA = false, mnMajorB = false;
  /// ShapedType::kDynamic for what is only known at run time.
  GroupedMatmulSizes<int64_t> sizes;

  int64_t getElementBytes() const { return aType.getIntOrFloatBitWidth() / 8; }
  int64_t getResultBytes() const {
    return resultType.getIntOrFloatBitWidth() / 8;
  }
  bool hasBlockScales() const { return blockScalesA != BlockScales::None; }
  bool isMGrouped() const { return groupedDim == GroupedDim::M; }
  /// Whether each group has a matrix of b. Rows after the last group become
  /// zero, and count as one more group where tiles are counted.
  bool hasExperts() const { return isMGrouped() && !dense; }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_GROUPEDMATMUL_H
