//===- PlacementMemo.h - Layouts and costs, computed once ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H
#define FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H

#include "fp8moe/Kernels/Model/KernelProblem.h"

#include <unordered_map>

namespace mlir::fp8moe {

/// A tensor of a kernel, and the layouts it may have there. A null entry is a
/// layout that is not possible.
struct TensorLayouts {
  Value tensor;
  SmallVector<const StridedLayout *, 4> layouts;
};

/// The costs of a kernel per run of its function.
struct KernelCosts {
  /// The cost with the current layouts.
  Cost current;
  /// The cost by the layouts of the tensors: a sum of tables over some of
  /// these.
  std::vector<CostTable> tables;
  /// The cost with the best layouts.
  Cost least;
};

/// The candidate layouts of a tensor, its current one first.
struct LayoutCandidates {
  std::vector<StridedLayout> layouts;
  /// Costs of copies, with the source layout as row and the destination as
  /// column. A copy to the same layout costs nothing.
  std::vector<Cost> copyCosts;

  const Cost &getCopyCost(unsigned from, unsigned to) const {
    return copyCosts[from * layouts.size() + to];
  }
};

/// Scales the cost of an operation that runs `frequency` times.
Cost scaleCost(Cost cost, double frequency);

/// A cache of layouts and of costs of copies and kernels. The layers of a model
/// repeat their kernels, and a lookup is faster than a prediction. References
/// to entries stay valid.
class PlacementMemo {
public:
  /// Returns the layout of a type, which must be strided.
  const StridedLayout &getLayout(RankedTensorType type);

  /// Returns the current layout of a tensor, its dense layouts, and all others
  /// of `wanted` with known strides. Dense layouts have rank 3 at most and keep
  /// the first of three dimensions outermost.
  const LayoutCandidates &getCandidates(RankedTensorType type,
                                        ArrayRef<StridedLayout> wanted,
                                        const TargetInfo &target);

  /// Returns the dense layouts of a tensor in every order of its dimensions;
  /// empty above rank 3.
  ArrayRef<StridedLayout> getAllOrders(RankedTensorType type);

  /// Returns the costs of a kernel or regrouping that runs `frequency` times,
  /// for every combination of layouts of `tensors`. A null layout costs
  /// infinity.
  const KernelCosts &getCosts(Operation *op, ArrayRef<TensorLayouts> tensors,
                              double frequency, const TargetInfo &target);

private:
  /// Addresses and numbers that identify everything an entry depends on: name,
  /// properties, types, which operands are the same tensor, and assumed
  /// layouts. All addresses are of uniqued objects, except those of row
  /// operations that produce operands, whose names and types are there, too.
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
  /// The key of the current lookup; a member to reuse its memory.
  Key key;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PLACEMENTMEMO_H
