//===- LayoutMemo.h - Layouts that tensors of one type can have -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_LAYOUTMEMO_H
#define FP8MOE_LIB_TRANSFORMS_LAYOUTMEMO_H

#include "KernelCostMemo.h"

namespace mlir::fp8moe {

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

/// Layouts and candidates by what they depend on, computed once.
class LayoutMemo {
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

private:
  /// Entries stay where they are.
  std::unordered_map<const void *, StridedLayout> layouts;
  std::unordered_map<const void *, std::vector<StridedLayout>> allOrders;
  std::unordered_map<std::vector<uint64_t>, LayoutCandidates, NumbersHash>
      candidates;
  /// The key that is looked up; a member to reuse its memory.
  std::vector<uint64_t> key;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_LAYOUTMEMO_H
