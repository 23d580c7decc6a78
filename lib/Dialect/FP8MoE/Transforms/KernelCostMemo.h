//===- KernelCostMemo.h - Costs of kernels that repeat ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_KERNELCOSTMEMO_H
#define FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_KERNELCOSTMEMO_H

#include "fp8moe/Tuning/KernelCost.h"

#include <unordered_map>

namespace mlir::fp8moe {

/// A tensor of a kernel and the layouts that it may have there; null where it
/// can have none.
struct TensorLayouts {
  Value tensor;
  SmallVector<const StridedLayout *, 4> layouts;
};

/// Costs of kernels by what they depend on: name, properties, types, which
/// operands are the same tensor, and assumed layouts. The layers of a model
/// repeat their kernels, and predicting a cost takes longer than to look it up.
class KernelCostMemo {
public:
  /// One cost for each combination of layouts of `tensors`, those of the last
  /// tensor fastest; impossible where a layout is null.
  const std::vector<Cost> &getTable(KernelOpInterface op,
                                    ArrayRef<TensorLayouts> tensors,
                                    const TargetInfo &target);

  /// The cost of the kernel as it is.
  const Cost &getCost(KernelOpInterface op, const TargetInfo &target) {
    return getTable(op, {}, target).front();
  }

private:
  /// Addresses of uniqued objects and numbers. They say all that a cost depends
  /// on, so an entry stays true whatever becomes of the operation.
  using Key = std::vector<uint64_t>;
  struct KeyHash {
    size_t operator()(const Key &key) const {
      return llvm::hash_combine_range(key.begin(), key.end());
    }
  };
  std::unordered_map<Key, std::vector<Cost>, KeyHash> tables;
  /// The key that is looked up; a member to reuse its memory.
  Key key;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DIALECT_FP8MOE_TRANSFORMS_KERNELCOSTMEMO_H
