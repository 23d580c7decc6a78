//===- KernelCostMemo.cpp - Costs of kernels that repeat ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCostMemo.h"

#include "fp8moe/Kernels/Matmul/ExchangedMatmul.h"

using namespace mlir;
using namespace mlir::fp8moe;

static uint64_t toNumber(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

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
    // Its kernel may compute rows instead of reading them.
    auto rows = operand.getDefiningOp<RowOpInterface>();
    key.push_back(toNumber(rows ? rows.getOperation() : nullptr));
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

/// The tensor's place among the operands, or behind them among the results.
static uint64_t getPlace(Operation *op, Value tensor) {
  if (tensor.getDefiningOp() == op)
    return op->getNumOperands() + cast<OpResult>(tensor).getResultNumber();
  return std::distance(op->operand_begin(),
                       llvm::find(op->getOperands(), tensor));
}

void fp8moe::appendLayout(const StridedLayout *layout,
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

/// Steps to the next combination, the last tensor fastest; false after the
/// last.
static bool nextCombination(MutableArrayRef<size_t> places,
                            ArrayRef<TensorLayouts> tensors) {
  for (size_t i = places.size(); i-- > 0;) {
    if (++places[i] < tensors[i].layouts.size())
      return true;
    places[i] = 0;
  }
  return false;
}

static KernelCosts computeCosts(Operation *op, ArrayRef<TensorLayouts> tensors,
                                double frequency, const TargetInfo &target) {
  KernelCosts result;
  std::vector<Cost> costs;
  SmallVector<size_t> places(tensors.size(), 0);
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
  } while (nextCombination(places, tensors));
  result.least = *llvm::min_element(costs);
  result.current = scaleCost(estimateKernel(op, {}, target), frequency);
  SmallVector<unsigned> sizes =
      llvm::map_to_vector(tensors, [](const TensorLayouts &entry) -> unsigned {
        return entry.layouts.size();
      });
  result.tables = separateCosts(sizes, std::move(costs));
  return result;
}

const KernelCosts &KernelCostMemo::get(Operation *op,
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
  auto [it, isNew] = entries.try_emplace(key);
  if (isNew)
    it->second = computeCosts(op, tensors, frequency, target);
  return it->second;
}
