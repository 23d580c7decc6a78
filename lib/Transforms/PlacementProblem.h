//===- PlacementProblem.h - Layout placement as a minimum -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PLACEMENTPROBLEM_H
#define FP8MOE_LIB_TRANSFORMS_PLACEMENTPROBLEM_H

#include "LayoutGraph.h"
#include "PlacementMemo.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::fp8moe {

/// Where a copy of a tensor (LayoutRoot) is inserted: before `before`, or after
/// the definition of the tensor if that is null.
struct CopySpot {
  Operation *before = nullptr;
  double frequency = 1;
};

/// The layouts chosen for one root.
struct RootPlacement {
  StridedLayout primary;
  /// The layout of the root that each use reads, in the order of
  /// LayoutRoot::uses.
  std::vector<StridedLayout> reads;
};

struct Placement {
  std::vector<RootPlacement> roots;
  Cost cost;
  /// Whether the placement is proven to have the least cost.
  bool isExact = true;
};

/// The placement problem of docs/design/layouts.md as variables and factors of
/// a MinSumProblem.
class PlacementProblem {
public:
  PlacementProblem(const LayoutGraph &graph, const TargetInfo &target,
                   PlacementMemo &memo);

  Placement solve(bool byEnumeration = false) const;

  /// Returns the cost of the current program.
  const Cost &getCurrentCost() const { return currentCost; }

  /// Returns the number of combinations of all choices, saturated.
  uint64_t getNumCombinations() const { return numCombinations; }

  /// Returns where to insert a copy of a root for these uses.
  static CopySpot findCopySpot(const LayoutRoot &root,
                               ArrayRef<const LayoutUse *> uses);

private:
  /// A choice among candidate layouts of a root. `variable` is only set if
  /// there are several options.
  struct Choice {
    SmallVector<unsigned, 4> options;
    std::optional<MinSumProblem::Variable> variable;
  };

  void collectCandidates();
  Choice addChoice(SmallVector<unsigned, 4> options);
  /// Adds the cost of each option of a choice.
  template <typename GetCost>
  void addCosts(const Choice &choice, GetCost getCost);
  /// Adds a factor to the problem: `getCost` of each combination of options.
  void addTerm(ArrayRef<const Choice *> choices,
               llvm::function_ref<Cost(ArrayRef<unsigned>)> getCost);
  /// As above, with a table of costs. The options of the last choice vary
  /// fastest.
  void addTable(ArrayRef<const Choice *> choices, std::vector<Cost> costs);
  SmallVector<unsigned, 4> getPrimaryOptions(unsigned root) const;
  SmallVector<unsigned, 4> getReadOptions(unsigned root, unsigned use);
  void addChangeTerms(unsigned root);
  void addCopyTerms(unsigned root);
  void addSharedCopyTerms(unsigned root, unsigned layout,
                          ArrayRef<const Choice *> readers, double frequency);
  void addFlowTerms(unsigned root);
  void addKernelTerm(Operation *op);
  /// Computes the layout that a use sees for each candidate of the root.
  void lookThroughViews(unsigned root, unsigned use);
  /// Returns a candidate of a root as a use sees it; null if its views would
  /// need a copy.
  const StridedLayout *getSeen(unsigned root, unsigned use,
                               unsigned candidate) const;
  /// Returns the only layout that a use supports, or null if it supports
  /// several.
  const StridedLayout *getWantedLayout(unsigned root, unsigned use) const;
  bool canRead(unsigned root, unsigned use, unsigned candidate,
               const StridedLayout *wanted) const;
  Cost copyCost(unsigned root, unsigned from, unsigned to,
                double frequency) const;
  unsigned getChosen(const Choice &choice,
                     const MinSumProblem::Solution &solution) const;

  const LayoutGraph &graph;
  const TargetInfo &target;
  PlacementMemo &memo;
  /// Maps an operand to the index of its root, and of its use there.
  llvm::DenseMap<OpOperand *, std::pair<unsigned, unsigned>> useOf;
  MinSumProblem problem;
  /// The cost of the terms without variables.
  Cost constant;
  Cost currentCost;
  uint64_t numCombinations = 1;
  std::vector<const LayoutCandidates *> candidates;
  std::vector<Choice> primaryOf;
  std::vector<SmallVector<Choice, 2>> readOf;
  /// The layout seen for each candidate, by root and use. Empty for a use
  /// without views, which sees the candidates themselves.
  std::vector<std::vector<std::vector<std::optional<StridedLayout>>>> seenOf;
};

/// Returns the predicted cost of a function's kernels and copies with current
/// layouts.
Cost evaluateFunction(FunctionOpInterface function, const TargetInfo &target,
                      PlacementMemo &memo);

/// Predicts the gain of changes to a function. Each is made in a clone, whose
/// layouts are then placed.
class PlacementTrials {
public:
  PlacementTrials(FunctionOpInterface function, const TargetInfo &target,
                  PlacementMemo &memo)
      : function(function), target(target), memo(memo) {}

  /// Whether the budget of trials is used up.
  bool areOver() const { return numCloned > kMaxCloned; }

  /// Returns the cost of the unchanged function after placement.
  Cost getCost();
  /// Returns the cost after `change` and placement. `change` gets the mapping
  /// to values of the clone.
  Cost tryChange(function_ref<void(IRMapping &)> change);

private:
  /// Operations that may be cloned in total. A trial takes some 20 us per
  /// operation of its clone, so all take a few seconds: enough for 80 tensors
  /// that are regrouped twice.
  static constexpr int64_t kMaxCloned = 200000;

  FunctionOpInterface function;
  const TargetInfo &target;
  PlacementMemo &memo;
  int64_t numCloned = 0;
};

/// Returns the cost of a function if its layouts are certainly optimal without
/// a search: nothing is copied, and no kernel is faster with other layouts.
std::optional<Cost> findCertainlyLeastCost(FunctionOpInterface function,
                                           const TargetInfo &target,
                                           PlacementMemo &memo);

/// Estimates how often an operation runs per run of its function.
double estimateFrequency(Operation *op);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PLACEMENTPROBLEM_H
