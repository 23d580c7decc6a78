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

/// The dimension that the groups of a grouped matmul partition: M (rows of the
/// result) or K (the contraction).
enum class GroupedDim { M, K };

/// How a kernel reads or writes one tensor.
struct TensorAccess {
  /// Whether layout placement may choose the order of the dimensions in memory.
  /// Otherwise the tensor keeps its layout.
  bool isFree = false;
  /// Dimensions along which the kernel accesses many neighbours at once. If one
  /// of them is contiguous, the kernel uses whole sectors.
  SmallVector<int64_t, 4> walkedDims;
  /// Dimensions of which one must be contiguous. Empty: no requirement.
  SmallVector<int64_t, 2> contiguousDims;

  static TensorAccess fixed() { return {}; }
  static TensorAccess free(ArrayRef<int64_t> walkedDims,
                           ArrayRef<int64_t> contiguousDims = {}) {
    return {true, SmallVector<int64_t, 4>(walkedDims),
            SmallVector<int64_t, 2>(contiguousDims)};
  }
};

/// A named number or keyword of a tile. Both strings have static storage.
struct TileField {
  StringRef name;
  std::variant<int64_t, StringRef> value;
};

} // namespace mlir::fp8moe

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttrInterfaces.h.inc"

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_H
