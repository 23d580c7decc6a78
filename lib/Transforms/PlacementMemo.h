//===- PlacementMemo.h - Layouts and costs, computed once ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H
#define FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H

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

/// The layouts in question for a tensor, its current one first.
struct LayoutCandidates {
  std::vector<StridedLayout> layouts;
  /// Costs of copies, from the rows to the columns; a copy to the same layout
  /// costs nothing.
  std::vector<Cost> copyCosts;

  const Cost &getCopyCost(unsigned from, unsigned to) const {
    return copyCosts[from * layouts.size() + to];
  }
};

/// `cost` of what runs `frequency` times.
Cost scaleCost(Cost cost, double frequency);

/// Layouts, and costs of copies and kernels, by what they depend on. The layers
/// of a model repeat their kernels, and predicting a cost takes longer than to
/// look it up. Entries stay where they are.
class PlacementMemo {
public:
  /// The layout of a type that has a strided one.
  const StridedLayout &getLayout(RankedTensorType type);

  /// The current layout of a tensor, the dense ones, and those of `wanted` that
  /// are none of these.
  const LayoutCandidates &getCandidates(RankedTensorType type,
                                        ArrayRef<StridedLayout> wanted,
                                        const TargetInfo &target);

  /// The dense layouts of a tensor of few dimensions in every order, or none.
  ArrayRef<StridedLayout> getAllOrders(RankedTensorType type);

  /// Returns the costs of a kernel, or of a copy that pads, packs or tiles
  /// groups, which runs `frequency` times: for every combination of layouts of
  /// `tensors`. Where a layout is null they are infinite.
  const KernelCosts &getCosts(Operation *op, ArrayRef<TensorLayouts> tensors,
                              double frequency, const TargetInfo &target);

private:
  /// Addresses of uniqued objects and numbers. They say all that an entry
  /// depends on, so it stays true whatever becomes of an operation: costs
  /// depend on name, properties, types, which operands are the same tensor, and
  /// assumed layouts.
  using Key = std::vector<uint64_t>;
  struct KeyHash {
    size_t operator()(const Key &key) const {
      return llvm::hash_combine_range(key.begin(), key.end());
    }
  };

  std::unordered_map<const void *, StridedLayout> layouts;
  std::unordered_map<const void *, std::vector<StridedLayout>> allOrders;
  std::unordered_map<Key, LayoutCandidates, KeyHash> candidates;
  std::unordered_map<Key, KernelCosts, KeyHash> costs;
  /// The key that is looked up; a member to reuse its memory.
  Key key;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H
