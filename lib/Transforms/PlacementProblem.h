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

/// Where a copy of a root goes: before `before`, or after the root's definition
/// when it is null.
struct CopySpot {
  Operation *before = nullptr;
  double frequency = 1;
};

/// The layouts chosen for one root.
struct RootPlacement {
  StridedLayout primary;
  /// The layouts that each use reads, in the order of LayoutRoot::uses.
  std::vector<StridedLayout> reads;
};

struct Placement {
  std::vector<RootPlacement> roots;
  Cost cost;
  /// Whether no other placement costs less.
  bool isExact = true;
};

/// The choices of docs/design/layouts.md as variables and factors.
class PlacementProblem {
public:
  PlacementProblem(const LayoutGraph &graph, const TargetInfo &target,
                   PlacementMemo &memo);

  Placement solve(bool byEnumeration = false) const;

  /// The cost of the program as it is.
  const Cost &getCurrentCost() const { return currentCost; }

  /// The number of combinations, saturated.
  uint64_t getNumCombinations() const { return numCombinations; }

  /// Where a copy for these uses of a root goes.
  static CopySpot findCopySpot(const LayoutRoot &root,
                               ArrayRef<const LayoutUse *> uses);

private:
  /// A choice among candidates of a root. Without an alternative it is no
  /// variable of the problem.
  struct Choice {
    SmallVector<unsigned, 4> options;
    std::optional<MinSumProblem::Variable> variable;
  };

  void collectCandidates();
  Choice addChoice(SmallVector<unsigned, 4> options);
  /// Adds what each option of a choice costs.
  template <typename GetCost>
  void addCosts(const Choice &choice, GetCost getCost);
  /// Adds a term of the sum: `getCost` of an option of each choice.
  void addTerm(ArrayRef<const Choice *> choices,
               llvm::function_ref<Cost(ArrayRef<unsigned>)> getCost);
  /// As above, with a cost for each combination of options, those of the last
  /// choice fastest.
  void addTable(ArrayRef<const Choice *> choices, std::vector<Cost> costs);
  SmallVector<unsigned, 4> getPrimaryOptions(unsigned root) const;
  SmallVector<unsigned, 4> getReadOptions(unsigned root, unsigned use);
  void addChangeTerms(unsigned root);
  void addCopyTerms(unsigned root);
  void addSharedCopyTerms(unsigned root, unsigned layout,
                          ArrayRef<const Choice *> readers, double frequency);
  void addFlowTerms(unsigned root);
  void addKernelTerm(Operation *op);
  /// Finds what a use sees of each candidate.
  void lookThroughViews(unsigned root, unsigned use);
  /// A candidate of a root as a use sees it; null when its views cannot be.
  const StridedLayout *getSeen(unsigned root, unsigned use,
                               unsigned candidate) const;
  /// The only layout that a use takes, or null when it takes several.
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
  /// Root and number of each use.
  llvm::DenseMap<OpOperand *, std::pair<unsigned, unsigned>> useOf;
  MinSumProblem problem;
  /// The cost of the terms without variables.
  Cost constant;
  Cost currentCost;
  uint64_t numCombinations = 1;
  std::vector<const LayoutCandidates *> candidates;
  std::vector<Choice> primaryOf;
  std::vector<SmallVector<Choice, 2>> readOf;
  /// For each use of each root what it sees of each candidate; empty when it
  /// has no views and sees the candidates themselves.
  std::vector<std::vector<std::vector<std::optional<StridedLayout>>>> seenOf;
};

/// Predicted cost of a function as it is: its kernels and its copies.
Cost evaluateFunction(FunctionOpInterface function, const TargetInfo &target,
                      PlacementMemo &memo);

/// Predicts what changes of a function gain, each made in a clone whose layouts
/// are placed.
class PlacementTrials {
public:
  PlacementTrials(FunctionOpInterface function, const TargetInfo &target,
                  PlacementMemo &memo)
      : function(function), target(target), memo(memo) {}

  /// Whether there were so many trials that no more should be made.
  bool areOver() const { return numCloned > kMaxCloned; }

  /// The cost of the function as it is.
  Cost getCost();
  /// The cost with `change`, which gets the values of the clone.
  Cost tryChange(function_ref<void(IRMapping &)> change);

private:
  /// A trial takes some 20 us for each operation of its clone. So many
  /// operations may be cloned: a few seconds, enough for 80 tensors that are
  /// regrouped twice.
  static constexpr int64_t kMaxCloned = 200000;

  FunctionOpInterface function;
  const TargetInfo &target;
  PlacementMemo &memo;
  int64_t numCloned = 0;
};

/// The cost of a function for which it is certain without a search that no
/// placement is better: nothing is copied, and no kernel is faster with other
/// layouts.
std::optional<Cost> findCertainlyLeastCost(FunctionOpInterface function,
                                           const TargetInfo &target,
                                           PlacementMemo &memo);

/// How often an operation runs for each time its function does.
double estimateFrequency(Operation *op);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PLACEMENTPROBLEM_H
