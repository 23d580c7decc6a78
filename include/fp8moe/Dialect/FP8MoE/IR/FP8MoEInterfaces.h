//===- FP8MoEInterfaces.h - Layout, tile and size interfaces ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/TensorEncoding.h"

#include <variant>

namespace mlir::fp8moe {

/// Two dimensions of operands that must have the same size.
struct EqualSizes {
  Value first;
  int64_t firstDim;
  Value second;
  int64_t secondDim;
};

/// The dimension of a grouped matmul that the groups divide: rows of the
/// result, or what is contracted.
enum class GroupedDim { M, K };

/// How a kernel reads or writes one tensor.
struct TensorAccess {
  /// The order of the dimensions in memory may be chosen; otherwise the tensor
  /// must keep the layout that it has.
  bool isFree = false;
  /// Dimensions along which the kernel touches many neighbours at once. When
  /// one of them is contiguous, whole sectors are used.
  SmallVector<int64_t, 4> walkedDims;
  /// Dimensions one of which must be contiguous; none when any may be.
  SmallVector<int64_t, 2> contiguousDims;

  static TensorAccess fixed() { return {}; }
  static TensorAccess free(ArrayRef<int64_t> walkedDims,
                           ArrayRef<int64_t> contiguousDims = {}) {
    return {true, SmallVector<int64_t, 4>(walkedDims),
            SmallVector<int64_t, 2>(contiguousDims)};
  }
};

/// A number or word of a tile. Both strings live forever.
struct TileField {
  StringRef name;
  std::variant<int64_t, StringRef> value;
};

} // namespace mlir::fp8moe

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttrInterfaces.h.inc"

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_H
