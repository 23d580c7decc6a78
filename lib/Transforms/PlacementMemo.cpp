//===- PlacementMemo.cpp - Layouts and costs, computed once ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlacementMemo.h"

#include "fp8moe/Kernels/Matmul/MatmulWork.h"

using namespace mlir;
using namespace mlir::fp8moe;

static uint64_t toNumber(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

/// Appends a layout of a tensor of known rank to the key. Null is allowed.
static void appendLayout(const StridedLayout *layout,
                         std::vector<uint64_t> &key) {
  if (!layout) {
    key.push_back(0);
    return;
  }
  key.push_back(layout->dense ? 1 : 2);
  key.push_back(layout->align);
  key.push_back(toNumber(layout->groups.getAsOpaquePointer()));
  key.insert(key.end(), layout->order.begin(), layout->order.end());
  key.insert(key.end(), layout->strides.begin(), layout->strides.end());
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// The largest rank for which all orders are tried. Tensors of the dialect's
/// kernels have at most this rank.
static constexpr int64_t kMaxPermutedRank = 3;

/// Returns the dense layout of a tensor in another order, with its groups
/// unchanged.
static StridedLayout getDenseLike(RankedTensorType type,
                                  ArrayRef<int64_t> order) {
  StridedLayout layout = StridedLayout::getDense(type.getShape(), order);
  layout.groups = getGroupPadding(type);
  return layout;
}

const StridedLayout &PlacementMemo::getLayout(RankedTensorType type) {
  auto [it, isNew] = layouts.try_emplace(type.getAsOpaquePointer());
  if (isNew)
    it->second = *StridedLayout::get(type);
  return it->second;
}

ArrayRef<StridedLayout> PlacementMemo::getAllOrders(RankedTensorType type) {
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
PlacementMemo::getCandidates(RankedTensorType type,
                             ArrayRef<StridedLayout> wanted,
                             const TargetInfo &target) {
  key.assign({toNumber(&target), toNumber(type.getAsOpaquePointer())});
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

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static void appendOperation(Operation *op, const TargetInfo &target,
                            std::vector<uint64_t> &key) {
  key.push_back(toNumber(&target));
  key.push_back(toNumber(op->getName().getAsOpaquePointer()));
  key.push_back(toNumber(op->getPropertiesAsAttribute().getAsOpaquePointer()));
  key.push_back(op->getNumOperands());
  for (Value operand : op->getOperands()) {
    key.push_back(toNumber(operand.getType().getAsOpaquePointer()));
    // The first operand with the same value.
    key.push_back(std::distance(op->operand_begin(),
                                llvm::find(op->getOperands(), operand)));
    // Its kernel may compute rows instead of reading them. The address alone
    // may be that of an operation that is gone.
    auto rows = operand.getDefiningOp<RowOpInterface>();
    key.push_back(toNumber(rows ? rows.getOperation() : nullptr));
    if (rows)
      appendOperation(rows, target, key);
  }
  for (Type type : op->getResultTypes())
    key.push_back(toNumber(type.getAsOpaquePointer()));
  // Where its scales come from decides which layouts a result may have.
  if (auto matmul = dyn_cast<MatmulOpInterface>(op))
    key.push_back(explainNotExchangeable(matmul).empty());
}

Cost fp8moe::scaleCost(Cost cost, double frequency) {
  cost.time = static_cast<int64_t>(cost.time * frequency);
  cost.bytes = static_cast<int64_t>(cost.bytes * frequency);
  return cost;
}

/// Returns the index of the tensor among operands, then results.
static uint64_t getPlace(Operation *op, Value tensor) {
  if (tensor.getDefiningOp() == op)
    return op->getNumOperands() + cast<OpResult>(tensor).getResultNumber();
  return std::distance(op->operand_begin(),
                       llvm::find(op->getOperands(), tensor));
}

static KernelCosts computeCosts(Operation *op, ArrayRef<TensorLayouts> tensors,
                                double frequency, const TargetInfo &target) {
  KernelCosts result;
  std::vector<Cost> costs;
  SmallVector<unsigned> sizes =
      llvm::map_to_vector(tensors, [](const TensorLayouts &entry) -> unsigned {
        return entry.layouts.size();
      });
  SmallVector<unsigned> places(tensors.size(), 0);
  SmallVector<AssumedLayout> assumed(tensors.size());
  do {
    for (auto [entry, tensor, place] :
         llvm::zip_equal(assumed, tensors, places))
      entry = {tensor.tensor, tensor.layouts[place]};
    bool isPossible = llvm::all_of(
        assumed, [](const AssumedLayout &entry) { return entry.layout; });
    Cost cost =
        isPossible ? estimateKernel(op, assumed, target) : Cost::infinite();
    costs.push_back(scaleCost(cost, frequency));
  } while (nextCombination(places, sizes));
  result.least = *llvm::min_element(costs);
  result.current = scaleCost(estimateKernel(op, {}, target), frequency);
  result.tables = separateCosts(sizes, std::move(costs));
  return result;
}

const KernelCosts &PlacementMemo::getCosts(Operation *op,
                                           ArrayRef<TensorLayouts> tensors,
                                           double frequency,
                                           const TargetInfo &target) {
  key.clear();
  appendOperation(op, target, key);
  key.push_back(llvm::bit_cast<uint64_t>(frequency));
  for (const TensorLayouts &entry : tensors) {
    key.push_back(getPlace(op, entry.tensor));
    key.push_back(entry.layouts.size());
    for (const StridedLayout *layout : entry.layouts)
      appendLayout(layout, key);
  }
  auto [it, isNew] = costs.try_emplace(key);
  if (isNew)
    it->second = computeCosts(op, tensors, frequency, target);
  return it->second;
}
