//===- SinglePassModels.h - What single passes ask and count ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expressions that the compiler evaluates for static sizes and the host plan
// for the sizes of a call, written once: T is int64_t, HostSize or
// OpFoldResult.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSMODELS_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSMODELS_H

#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

namespace mlir::fp8moe {

/// A requirement of a kernel on a size. In the compiler, T is int64_t (or
/// kDynamic): the kernel is no candidate where the demand must fail. On the
/// host, T is OpFoldResult, and the demand is checked before the launch.
template <typename T> struct SizeDemand {
  enum Kind { MultipleOf, MoreThan, LessThan };
  T size;
  Kind kind;
  int64_t number;
};

/// False where the demand is known to fail.
inline bool mayHold(const SizeDemand<int64_t> &demand) {
  using Demand = SizeDemand<int64_t>;
  if (ShapedType::isDynamic(demand.size))
    return true;
  switch (demand.kind) {
  case Demand::MultipleOf:
    return mayBeMultiple(demand.size, demand.number);
  case Demand::MoreThan:
    return demand.size > demand.number;
  case Demand::LessThan:
    return demand.size < demand.number;
  }
  llvm_unreachable("unknown kind of demand");
}

namespace single_pass_outer {
/// Returns the kernel's demands on sizes. `hasSegmentDim`: segments are a
/// dimension of the input.
template <typename T>
SmallVector<SizeDemand<T>> getSizeDemands(const QuantizeSizes<T> &sizes,
                                          int64_t inputBytes,
                                          bool hasSegmentDim) {
  using Demand = SizeDemand<T>;
  SmallVector<Demand> demands;
  int64_t pitch = nvidia::kTensorMapAddressAlignment / inputBytes;
  demands.push_back({sizes.inReduction, Demand::MultipleOf, pitch});
  if (hasSegmentDim)
    demands.push_back({sizes.inSegment, Demand::MultipleOf, pitch});
  demands.push_back(
      {sizes.parallel, Demand::MultipleOf, kCellBytes / inputBytes});
  // Tensor maps have no empty dimensions.
  for (T count : {sizes.segments, sizes.reduction, sizes.parallel})
    demands.push_back({count, Demand::MoreThan, 0});
  for (T count : {sizes.segments, sizes.reduction, sizes.parallel})
    demands.push_back({count, Demand::LessThan, kMaxCount});
  return demands;
}

/// Returns an upper bound on the tile numbers that all segments take at the
/// columns of one panel. Tiles are numbered as if all spans were whole.
template <typename T>
T countNumbers(const T &rows, const T &segments, bool jagged) {
  auto count = [&](int64_t rowsOfNumber, int64_t moreOfSegment) {
    return ceilDiv(rows, T(rowsOfNumber)) + segments * T(moreOfSegment);
  };
  // A segment begins up to 31 rows into its first tile, so that its panels have
  // at most length / 128 + 1.24 tiles, and less than a span more numbers.
  if (!jagged)
    return count(kLines, 1 + kSpanTiles);
  // A short panel has two numbers for each tile: at most length / 64 + 2.5.
  // That is too many of long segments: those have one for each tile, and short
  // ones as many again.
  return minOf(count(kLines / 2, 3),
               count(kLines, 1 + kSpanTiles + kShortTiles));
}
} // namespace single_pass_outer

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_SINGLEPASSMODELS_H
