//===- GroupedMatmul.h - One matmul per jagged group ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_FP8MOETOGPU_MATMUL_GROUPEDMATMUL_H
#define FP8MOE_CONVERSION_FP8MOETOGPU_MATMUL_GROUPEDMATMUL_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"
#include "fp8moe/Tuning/Matmul/MatmulTiles.h"

#include <array>

namespace mlir::fp8moe {

/// Sizes of a grouped matmul in elements. The result has `rows` by `columns`;
/// both operands are contiguous along the contraction.
template <typename T> struct GroupedMatmulSizes {
  /// Forward: all groups' rows. Weight gradient: rows of each group's result.
  T rows;
  T columns;
  /// Extent in memory of the contracted dimension; of all groups together in
  /// the weight gradient.
  T contraction;
  T groups;
  /// Stride of the result's rows (forward).
  T resultRow;
  /// Strides of the rows and, in the weight gradient, of the groups of what is
  /// accumulated into.
  T addendRow, addendGroup;

  static constexpr auto members() {
    using S = GroupedMatmulSizes;
    return std::array{&S::rows,      &S::columns,   &S::contraction, &S::groups,
                      &S::resultRow, &S::addendRow, &S::addendGroup};
  }
};

/// Elements of the contraction that the tensor cores add up by themselves.
/// Their sums of FP8 products keep fewer bits than f32, so that the relative
/// error grows with the root of the length: 2.9e-5 per root of an element were
/// measured with normally distributed operands up to 131072 elements, beside
/// the 1.7e-3 of a bf16 result. So many elements make 6.6e-3 of the 8e-3 that
/// (G6) grants; what is longer is added up in f32 from parts.
constexpr int64_t kFastSumElements = 49152;

/// result = (a . b) * scaleA[row] * scaleB[column] + addend, for each group.
struct GroupedMatmulProblem {
  /// FP8 or bf16; both have the same width.
  Type aType, bType;
  /// bf16 or f32.
  Type resultType;
  /// Groups are ranges of the rows, each with its own b (forward), or ranges of
  /// the contraction, each with its own result (weight gradient).
  bool forward = true;
  /// Groups of the contraction begin at multiples of this, with zeros between.
  int64_t padding = 1;
  bool hasScales = true;
  /// Scales are what data was multiplied by, and products are divided by.
  bool reciprocalScales = false;
  /// Partial sums of 128 bytes of the contraction are added in f32.
  bool promoted = false;
  /// A tensor of the result's type is added.
  bool accumulates = false;
  /// ShapedType::kDynamic for what is only known at run time.
  GroupedMatmulSizes<int64_t> sizes;

  int64_t getElementBytes() const { return aType.getIntOrFloatBitWidth() / 8; }
  int64_t getResultBytes() const {
    return resultType.getIntOrFloatBitWidth() / 8;
  }
  /// Whether a contraction may be too long for one sum of the tensor cores.
  bool hasPartialSums() const {
    return !promoted && getElementBytes() == 1 &&
           (ShapedType::isDynamic(sizes.contraction) ||
            sizes.contraction > kFastSumElements);
  }
  /// Groups that tiles are counted for: the rows behind the last group are one
  /// more in the forward direction, and become zero.
  bool hasTail() const { return forward; }
};

/// Columns and bytes per row of the boxes that results are stored in. A box has
/// the rows that one warp holds of a matrix instruction's result.
struct ResultBox {
  int64_t columns, rowBytes;
  static constexpr int64_t kRows = 16;

  /// The widest box that divides the columns of a tile.
  static ResultBox get(int64_t tileColumns, int64_t resultBytes);
};

/// Bytes in memory that a block needs for partial sums.
int64_t getPartialSumsBytes(const MatmulSchedule &schedule);

/// The kernel of a problem. Its parameters: tensor maps of a (contraction,
/// rows), of b (contraction, columns and, forward, groups) and of the result
/// (columns, rows and, in the weight gradient, groups); then the pointers
/// offsets, both scales if there are any, result (forward), what is accumulated
/// into, if anything, and room for partial sums, if there may be any
/// (getPartialSumsBytes for each block); then the dynamic sizes.
gpu::GPUFuncOp buildGroupedMatmul(Location loc, gpu::GPUModuleOp module,
                                  StringRef name,
                                  const GroupedMatmulProblem &problem,
                                  const MatmulSchedule &schedule,
                                  const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_FP8MOETOGPU_MATMUL_GROUPEDMATMUL_H
