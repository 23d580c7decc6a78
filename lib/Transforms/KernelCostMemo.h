//===- KernelCostMemo.h - Costs of kernels that repeat ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_KERNELCOSTMEMO_H
#define FP8MOE_LIB_TRANSFORMS_KERNELCOSTMEMO_H

#include "fp8moe/Kernels/Model/KernelCost.h"

#include <unordered_map>

namespace mlir::fp8moe {

/// A tensor of a kernel and the layouts that it may have there; null where it
/// can have none.
struct TensorLayouts {
  Value tensor;
  SmallVector<const StridedLayout *, 4> layouts;
};

/// The costs of a kernel, each time that its function runs.
struct KernelCosts {
  /// As it is.
  Cost current;
  /// By the layouts of its tensors: a sum of tables over some of them.
  std::vector<CostTable> tables;
  /// With the best layouts.
  Cost least;
};

/// `cost` of what runs `frequency` times.
Cost scaleCost(Cost cost, double frequency);

/// Appends all that a layout of a tensor of known rank says; null is allowed.
void appendLayout(const StridedLayout *layout, std::vector<uint64_t> &key);

/// Hashes lists of numbers.
struct NumbersHash {
  size_t operator()(const std::vector<uint64_t> &key) const {
    return llvm::hash_combine_range(key.begin(), key.end());
  }
};

/// Costs of kernels by what they depend on: name, properties, types, which
/// operands are the same tensor, and assumed layouts. The layers of a model
/// repeat their kernels, and predicting a cost takes longer than to look it up.
class KernelCostMemo {
public:
  /// The costs of a kernel or a regrouping that runs `frequency` times, for
  /// every combination of layouts of `tensors`; impossible where a layout is
  /// null.
  const KernelCosts &get(Operation *op, ArrayRef<TensorLayouts> tensors,
                         double frequency, const TargetInfo &target);

private:
  /// Addresses of uniqued objects and numbers. They say all that a cost depends
  /// on, so an entry stays true whatever becomes of the operation.
  using Key = std::vector<uint64_t>;
  std::unordered_map<Key, KernelCosts, NumbersHash> entries;
  /// The key that is looked up; a member to reuse its memory.
  Key key;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_KERNELCOSTMEMO_H
