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

/// Sizes of a grouped matmul in elements. The result has `rows` by `columns`;
/// both operands are contiguous along the contraction, unless they are
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
  /// Strides of the rows and, K-grouped, of the groups of what is accumulated
  /// into.
  T addendRow, addendGroup;

  static constexpr auto members() {
    using S = GroupedMatmulSizes;
    return std::array{&S::rows,      &S::columns,   &S::contraction, &S::groups,
                      &S::resultRow, &S::addendRow, &S::addendGroup};
  }
};

/// How scales of blocks of the contraction lie: there are none, line by line
/// (X1), in tiles (X6), or in tiles that begin anew with each group (X7).
enum class BlockScales { None, Lines, Tiles, GroupTiles };

/// result = (a . b) * scaleA[row] * scaleB[column] + addend, for each group;
/// both scales, or those of the columns, may be missing.
struct GroupedMatmulProblem {
  /// FP8 or bf16; both have the same width.
  Type aType, bType;
  /// bf16 or f32.
  Type resultType;
  GroupedDim groupedDim = GroupedDim::M;
  /// One group of all rows, whose end nobody has to read; M-grouped, and b is
  /// one matrix.
  bool dense = false;
  /// Groups of the contraction begin at multiples of this, with zeros between.
  int64_t padding = 1;
  /// Without those of a there are none of b (G10).
  bool hasScalesA = true, hasScalesB = true;
  /// Block scales of each operand, instead of those scales; both have them, or
  /// neither (G9).
  BlockScales blockScalesA = BlockScales::None,
              blockScalesB = BlockScales::None;
  /// Scales are what data was multiplied by, and products are divided by.
  bool reciprocalScales = false;
  /// Partial sums of 128 bytes of the contraction are added in f32.
  bool promoted = false;
  /// A tensor of the result's type is added.
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
  /// Each group has a matrix of b. Rows behind the last group become zero:
  /// where tiles are counted, they are one group more.
  bool hasExperts() const { return isMGrouped() && !dense; }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_GROUPEDMATMUL_H
