//===- LayoutMemo.cpp - Layouts that tensors of one type can have ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayoutMemo.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Orders of so many dimensions are tried; tensors of the dialect's kernels
/// have at most three.
static constexpr int64_t kMaxPermutedRank = 3;

/// The dense layout of a tensor in another order; its groups stay as they are.
static StridedLayout getDenseLike(RankedTensorType type,
                                  ArrayRef<int64_t> order) {
  StridedLayout layout = StridedLayout::getDense(type.getShape(), order);
  layout.groups = getGroupPadding(type);
  return layout;
}

const StridedLayout &LayoutMemo::getLayout(RankedTensorType type) {
  auto [it, isNew] = layouts.try_emplace(type.getAsOpaquePointer());
  if (isNew)
    it->second = *StridedLayout::get(type);
  return it->second;
}

ArrayRef<StridedLayout> LayoutMemo::getAllOrders(RankedTensorType type) {
  auto [it, isNew] = allOrders.try_emplace(type.getAsOpaquePointer());
  if (isNew && type.getRank() <= kMaxPermutedRank) {
    SmallVector<int64_t> order = identityPermutation(type.getRank());
    do {
      it->second.push_back(getDenseLike(type, order));
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return it->second;
}

static std::vector<StridedLayout>
collectLayouts(RankedTensorType type, const StridedLayout &current,
               ArrayRef<StridedLayout> wanted) {
  ArrayRef<int64_t> shape = type.getShape();
  std::vector<StridedLayout> layouts(1, current);
  auto add = [&](StridedLayout layout) {
    if (llvm::none_of(layouts, [&](const StridedLayout &known) {
          return known.isSameAs(layout, shape) && known.align >= layout.align;
        }))
      layouts.push_back(std::move(layout));
  };
  if (type.getRank() <= kMaxPermutedRank) {
    // Experts, the first of three dimensions, stay outermost unless a use wants
    // otherwise: every kernel keeps them apart.
    SmallVector<int64_t> order = identityPermutation(type.getRank());
    auto inner = order.begin() + (type.getRank() > 2 ? 1 : 0);
    do {
      add(getDenseLike(type, order));
    } while (std::next_permutation(inner, order.end()));
  }
  for (const StridedLayout &layout : wanted)
    if (layout.groups == current.groups &&
        !llvm::is_contained(layout.strides, ShapedType::kDynamic))
      add(layout);
  return layouts;
}

const LayoutCandidates &
LayoutMemo::getCandidates(RankedTensorType type, ArrayRef<StridedLayout> wanted,
                          const TargetInfo &target) {
  key.assign({reinterpret_cast<uintptr_t>(&target),
              reinterpret_cast<uintptr_t>(type.getAsOpaquePointer())});
  for (const StridedLayout &layout : wanted)
    appendLayout(&layout, key);
  auto [it, isNew] = candidates.try_emplace(key);
  LayoutCandidates &entry = it->second;
  if (!isNew)
    return entry;
  entry.layouts = collectLayouts(type, getLayout(type), wanted);
  for (const StridedLayout &from : entry.layouts)
    for (const StridedLayout &to : entry.layouts)
      entry.copyCosts.push_back(
          &from == &to ? Cost() : estimateCopy(type, from, to, target));
  return entry;
}
