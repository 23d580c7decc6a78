//===- PlacementProblem.cpp - Layout placement as a sum to minimise -------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlacementProblem.h"

#include "Regroupings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Assumed trip count of a loop if it is unknown: high enough that moving work
/// out of the loop pays off.
static constexpr double kUnknownTripCount = 8;
/// Rounds that propagate wanted layouts through control flow. Each round passes
/// one more level of nested loops.
static constexpr int kMaxFlowSweeps = 4;

double fp8moe::estimateFrequency(Operation *op) {
  double frequency = 1;
  for (Operation *parent = op->getParentOp();
       parent && !isa<FunctionOpInterface>(parent);
       parent = parent->getParentOp()) {
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      std::optional<APInt> trips = loop.getStaticTripCount();
      frequency *= trips ? trips->getSExtValue() : kUnknownTripCount;
    } else if (isa<scf::IfOp>(parent)) {
      frequency /= 2;
    }
  }
  return frequency;
}

/// Returns the cost of a change to the program, if `differs`.
static Cost change(bool differs) {
  Cost cost;
  cost.changes = differs;
  return cost;
}

/// Returns the cost of an existing copy.
static Cost estimateCurrentCopy(Operation *copy, const TargetInfo &target) {
  // It costs nothing and is not wanted.
  if (isNoopRelayout(copy))
    return change(true);
  return scaleCost(estimateRelayout(copy, {}, target), estimateFrequency(copy));
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Collects the candidates of each root: those of its type, and the layouts
/// that its uses want. A use that is a flow wants the layouts of the root that
/// it flows into.
void PlacementProblem::collectCandidates() {
  ArrayRef<LayoutRoot> roots = graph.getRoots();
  std::vector<SmallVector<StridedLayout, 0>> wanted(roots.size());
  bool changed = false;
  auto want = [&](unsigned root, const LayoutUse &use,
                  const StridedLayout &layout) {
    std::optional<StridedLayout> own = LayoutGraph::pullBack(use.views, layout);
    ArrayRef<int64_t> shape = roots[root].getType().getShape();
    if (!own || llvm::any_of(wanted[root], [&](const StridedLayout &known) {
          return known.isSameAs(*own, shape) && known.align == own->align;
        }))
      return;
    wanted[root].push_back(std::move(*own));
    changed = true;
  };
  for (int sweep = 0; sweep < kMaxFlowSweeps; ++sweep) {
    changed = false;
    bool hasFlows = false;
    // Mostly, what flows into a root is defined before it.
    for (unsigned root = roots.size(); root-- > 0;)
      for (const LayoutUse &use : roots[root].uses) {
        if (use.kind == LayoutUse::Kind::Fixed &&
            use.type != roots[root].getType())
          want(root, use, memo.getLayout(use.type));
        if (use.kind != LayoutUse::Kind::Flow)
          continue;
        hasFlows = true;
        want(root, use, memo.getLayout(roots[use.target].getType()));
        for (size_t i = 0; i < wanted[use.target].size(); ++i)
          want(root, use, StridedLayout(wanted[use.target][i]));
      }
    if (!changed || !hasFlows)
      break;
  }
  candidates.reserve(roots.size());
  for (auto [root, layoutsOfUses] : llvm::zip_equal(roots, wanted))
    candidates.push_back(
        &memo.getCandidates(root.getType(), layoutsOfUses, target));
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

PlacementProblem::Choice
PlacementProblem::addChoice(SmallVector<unsigned, 4> options) {
  Choice choice{std::move(options), std::nullopt};
  if (choice.options.size() > 1) {
    choice.variable = problem.addVariable(choice.options.size());
    numCombinations = llvm::SaturatingMultiply<uint64_t>(numCombinations,
                                                         choice.options.size());
  }
  return choice;
}

template <typename GetCost>
void PlacementProblem::addCosts(const Choice &choice, GetCost getCost) {
  if (!choice.variable) {
    constant += getCost(choice.options.front());
    return;
  }
  for (auto [value, option] : llvm::enumerate(choice.options))
    problem.addCost(*choice.variable, value, getCost(option));
}

void PlacementProblem::addTerm(
    ArrayRef<const Choice *> choices,
    llvm::function_ref<Cost(ArrayRef<unsigned>)> getCost) {
  SmallVector<unsigned, 4> sizes, options;
  for (const Choice *choice : choices) {
    sizes.push_back(choice->options.size());
    options.push_back(0);
  }
  SmallVector<unsigned, 4> places(choices.size(), 0);
  std::vector<Cost> costs;
  do {
    for (auto [option, choice, place] :
         llvm::zip_equal(options, choices, places))
      option = choice->options[place];
    costs.push_back(getCost(options));
  } while (nextCombination(places, sizes));
  addTable(choices, std::move(costs));
}

void PlacementProblem::addTable(ArrayRef<const Choice *> choices,
                                std::vector<Cost> costs) {
  // A term that costs the same either way decides nothing.
  if (llvm::all_equal(costs)) {
    constant += costs.front();
    return;
  }
  SmallVector<MinSumProblem::Variable, 4> variables;
  for (const Choice *choice : choices)
    if (choice->variable)
      variables.push_back(*choice->variable);
  problem.addFactor(variables, std::move(costs));
}

/// Returns the layouts that a root may be written in. Only results of kernels
/// and control flow have a choice.
SmallVector<unsigned, 4>
PlacementProblem::getPrimaryOptions(unsigned root) const {
  const LayoutRoot &entry = graph.getRoots()[root];
  bool isFree = entry.kind == LayoutRoot::Kind::Region;
  if (entry.kind == LayoutRoot::Kind::Kernel)
    isFree = LayoutGraph::getAccess(entry.values.front().getDefiningOp(),
                                    entry.values.front(), target)
                 .isFree;
  if (!isFree)
    return {0};
  return llvm::to_vector<4>(
      llvm::seq<unsigned>(0, candidates[root]->layouts.size()));
}

SmallVector<unsigned, 4> PlacementProblem::getReadOptions(unsigned root,
                                                          unsigned use) {
  SmallVector<unsigned, 4> options;
  const StridedLayout *wanted = getWantedLayout(root, use);
  for (unsigned i = 0; i < candidates[root]->layouts.size(); ++i)
    if (canRead(root, use, i, wanted))
      options.push_back(i);
  if (options.empty()) {
    constant += Cost::infinite();
    options.push_back(0);
  }
  return options;
}

PlacementProblem::PlacementProblem(const LayoutGraph &graph,
                                   const TargetInfo &target,
                                   PlacementMemo &memo)
    : graph(graph), target(target), memo(memo) {
  size_t numRoots = graph.getRoots().size();
  collectCandidates();
  primaryOf.reserve(numRoots);
  readOf.resize(numRoots);
  seenOf.resize(numRoots);
  for (auto [root, entry] : llvm::enumerate(graph.getRoots())) {
    primaryOf.push_back(addChoice(getPrimaryOptions(root)));
    seenOf[root].resize(entry.uses.size());
    for (auto [i, use] : llvm::enumerate(entry.uses)) {
      useOf[use.operand] = {root, i};
      lookThroughViews(root, i);
      readOf[root].push_back(addChoice(getReadOptions(root, i)));
    }
  }
  for (unsigned root = 0; root < numRoots; ++root) {
    addChangeTerms(root);
    addCopyTerms(root);
    addFlowTerms(root);
  }
  for (Operation *kernel : graph.getKernels())
    addKernelTerm(kernel);
  for (Operation *copy : graph.getRelayouts())
    currentCost += estimateCurrentCopy(copy, target);
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

/// Adds the cost of changes, so that layouts only change if something improves.
void PlacementProblem::addChangeTerms(unsigned root) {
  addCosts(primaryOf[root],
           [](unsigned option) { return change(option != 0); });
  const LayoutRoot &entry = graph.getRoots()[root];
  for (auto [i, use] : llvm::enumerate(entry.uses)) {
    const StridedLayout &current = memo.getLayout(use.type);
    addCosts(readOf[root][i], [&, i = i, &use = use](unsigned option) {
      const StridedLayout *seen = getSeen(root, i, option);
      return change(!seen || !seen->isSameAs(current, use.type.getShape()));
    });
  }
}

Cost PlacementProblem::copyCost(unsigned root, unsigned from, unsigned to,
                                double frequency) const {
  return scaleCost(candidates[root]->getCopyCost(from, to), frequency);
}

/// Adds the cost of copies: a use that reads another layout than the primary
/// one needs a copy. Uses that read the same copy share its cost.
void PlacementProblem::addCopyTerms(unsigned root) {
  const LayoutRoot &entry = graph.getRoots()[root];
  unsigned numLayouts = candidates[root]->layouts.size();
  if (entry.uses.empty() || numLayouts == 1)
    return;
  // No use has a choice, and all read the tensor as it is.
  bool isTrivial = !primaryOf[root].variable &&
                   llvm::all_of(readOf[root], [](const Choice &read) {
                     return !read.variable && read.options.front() == 0;
                   });
  if (isTrivial)
    return;
  SmallVector<const LayoutUse *> all = llvm::map_to_vector(
      entry.uses, [](const LayoutUse &use) { return &use; });
  double frequency = findCopySpot(entry, all).frequency;
  SmallVector<const Choice *> readers;
  for (unsigned layout = 0; layout < numLayouts; ++layout) {
    readers.clear();
    for (const Choice &read : readOf[root])
      if (llvm::is_contained(read.options, layout))
        readers.push_back(&read);
    if (readers.size() > 1) {
      addSharedCopyTerms(root, layout, readers, frequency);
    } else if (readers.size() == 1) {
      addTerm({&primaryOf[root], readers.front()},
              [&](ArrayRef<unsigned> chosen) {
                return chosen[1] == layout
                           ? copyCost(root, chosen[0], layout, frequency)
                           : Cost();
              });
    }
  }
}

void PlacementProblem::addSharedCopyTerms(unsigned root, unsigned layout,
                                          ArrayRef<const Choice *> readers,
                                          double frequency) {
  ArrayRef<unsigned> primaries = primaryOf[root].options;
  if (primaries.size() == 1 && primaries.front() == layout)
    return;
  // A reader that has no alternative needs the copy whatever others do.
  bool isNeeded =
      llvm::any_of(readers, [](const Choice *read) { return !read->variable; });
  Choice exists = isNeeded ? Choice{{1}, std::nullopt} : addChoice({0, 1});
  addTerm({&primaryOf[root], &exists}, [&](ArrayRef<unsigned> chosen) {
    return chosen[1] ? copyCost(root, chosen[0], layout, frequency) : Cost();
  });
  if (isNeeded)
    return;
  for (const Choice *read : readers)
    addTerm({&primaryOf[root], &exists, read}, [&](ArrayRef<unsigned> chosen) {
      bool isMissing = chosen[2] == layout && chosen[0] != layout && !chosen[1];
      return isMissing ? Cost::infinite() : Cost();
    });
}

void PlacementProblem::lookThroughViews(unsigned root, unsigned use) {
  const LayoutRoot &entry = graph.getRoots()[root];
  ArrayRef<Operation *> views = entry.uses[use].views;
  if (views.empty())
    return;
  for (const StridedLayout &layout : candidates[root]->layouts)
    seenOf[root][use].push_back(LayoutGraph::applyViews(views, layout));
}

const StridedLayout *PlacementProblem::getSeen(unsigned root, unsigned use,
                                               unsigned candidate) const {
  const std::vector<std::optional<StridedLayout>> &seen = seenOf[root][use];
  if (seen.empty())
    return &candidates[root]->layouts[candidate];
  return seen[candidate] ? &*seen[candidate] : nullptr;
}

const StridedLayout *PlacementProblem::getWantedLayout(unsigned root,
                                                       unsigned use) const {
  const LayoutUse &entry = graph.getRoots()[root].uses[use];
  switch (entry.kind) {
  case LayoutUse::Kind::Any:
  case LayoutUse::Kind::Flow:
    return nullptr;
  case LayoutUse::Kind::Fixed:
    return &memo.getLayout(entry.type);
  case LayoutUse::Kind::Kernel:
    if (LayoutGraph::getAccess(entry.operand->getOwner(), entry.operand->get(),
                               target)
            .isFree)
      return nullptr;
    return &memo.getLayout(entry.type);
  }
  llvm_unreachable("unknown kind of use");
}

bool PlacementProblem::canRead(unsigned root, unsigned use, unsigned candidate,
                               const StridedLayout *wanted) const {
  const StridedLayout *seen = getSeen(root, use, candidate);
  if (!seen || !wanted || seen == wanted)
    return seen;
  RankedTensorType type = graph.getRoots()[root].uses[use].type;
  return seen->isSameAs(*wanted, type.getShape()) &&
         seen->align >= wanted->align;
}

/// Requires that a tensor which flows into a root has the layout of that root.
void PlacementProblem::addFlowTerms(unsigned root) {
  const LayoutRoot &entry = graph.getRoots()[root];
  for (auto [i, use] : llvm::enumerate(entry.uses)) {
    if (use.kind != LayoutUse::Kind::Flow)
      continue;
    addTerm({&readOf[root][i], &primaryOf[use.target]},
            [&, i = i, &use = use](ArrayRef<unsigned> chosen) {
              const StridedLayout *seen = getSeen(root, i, chosen[0]);
              return seen && seen->isSameAs(
                                 candidates[use.target]->layouts[chosen[1]],
                                 use.type.getShape())
                         ? Cost()
                         : Cost::infinite();
            });
  }
}

/// Adds the time of a kernel, which depends on the layouts of all its operands
/// and results.
void PlacementProblem::addKernelTerm(Operation *op) {
  SmallVector<const Choice *> choices;
  SmallVector<TensorLayouts> tensors;
  for (OpOperand &operand : op->getOpOperands()) {
    auto it = useOf.find(&operand);
    if (it == useOf.end() ||
        !LayoutGraph::getAccess(op, operand.get(), target).isFree)
      continue;
    auto [root, use] = it->second;
    choices.push_back(&readOf[root][use]);
    TensorLayouts &entry = tensors.emplace_back();
    entry.tensor = operand.get();
    for (unsigned option : choices.back()->options)
      entry.layouts.push_back(getSeen(root, use, option));
  }
  for (Value result : op->getResults()) {
    std::optional<unsigned> root = graph.lookupRoot(result);
    if (!root || !LayoutGraph::getAccess(op, result, target).isFree)
      continue;
    choices.push_back(&primaryOf[*root]);
    TensorLayouts &entry = tensors.emplace_back();
    entry.tensor = result;
    for (unsigned option : choices.back()->options)
      entry.layouts.push_back(&candidates[*root]->layouts[option]);
  }

  const KernelCosts &costs =
      memo.getCosts(op, tensors, estimateFrequency(op), target);
  currentCost += costs.current;
  for (const CostTable &table : costs.tables) {
    SmallVector<const Choice *> involved = llvm::map_to_vector(
        table.choices, [&](unsigned choice) { return choices[choice]; });
    addTable(involved, table.costs);
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

CopySpot PlacementProblem::findCopySpot(const LayoutRoot &root,
                                        ArrayRef<const LayoutUse *> uses) {
  Value value = uses.front()->source;
  Block *home = value.getParentBlock();
  // Go inwards from the root's block while one region holds all uses.
  Block *block = home;
  Operation *first = nullptr;
  while (true) {
    first = nullptr;
    bool together = true;
    for (const LayoutUse *use : uses) {
      Operation *ancestor =
          block->findAncestorOpInBlock(*use->operand->getOwner());
      // A use of a loop's result is outside of the loop's body.
      if (!ancestor)
        return {nullptr, estimateFrequency(home->getParentOp())};
      together &= !first || ancestor == first;
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
    auto branch = dyn_cast<scf::IfOp>(first);
    if (!together || !branch || llvm::any_of(uses, [&](const LayoutUse *use) {
          return use->operand->getOwner() == first;
        }))
      break;
    Block *inner = nullptr;
    for (Region &region : branch->getRegions())
      if (!region.empty() && llvm::all_of(uses, [&](const LayoutUse *use) {
            return region.front().findAncestorOpInBlock(
                *use->operand->getOwner());
          }))
        inner = &region.front();
    if (!inner)
      break;
    block = inner;
  }
  return {first, estimateFrequency(first)};
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

unsigned
PlacementProblem::getChosen(const Choice &choice,
                            const MinSumProblem::Solution &solution) const {
  return choice
      .options[choice.variable ? solution.values[*choice.variable] : 0];
}

Placement PlacementProblem::solve(bool byEnumeration) const {
  MinSumProblem::Solution solution =
      byEnumeration ? problem.solveByEnumeration() : problem.solve();
  Placement placement;
  placement.roots.reserve(candidates.size());
  placement.cost = solution.cost + constant;
  placement.isExact = solution.isExact;
  for (unsigned root = 0; root < candidates.size(); ++root) {
    const std::vector<StridedLayout> &layouts = candidates[root]->layouts;
    RootPlacement &entry = placement.roots.emplace_back();
    entry.primary = layouts[getChosen(primaryOf[root], solution)];
    for (const Choice &read : readOf[root])
      entry.reads.push_back(layouts[getChosen(read, solution)]);
  }
  return placement;
}

Cost fp8moe::evaluateFunction(FunctionOpInterface function,
                              const TargetInfo &target, PlacementMemo &memo) {
  Cost total;
  function->walk([&](Operation *op) {
    if (LayoutGraph::isKernel(op))
      total += memo.getCosts(op, {}, estimateFrequency(op), target).current;
    else if (LayoutGraph::isPlainRelayout(op))
      total += estimateCurrentCopy(op, target);
  });
  return total;
}

/// Whether `use` only accepts the layout of the tensor's type.
static bool isFixedUse(const OpOperand &use) {
  return isa<CallOpInterface>(use.getOwner()) ||
         LayoutGraph::isReturnedByFunction(use);
}

/// Whether `kernel` is the only reader or writer of a tensor whose layout is
/// fixed by functions, calls and returns. Nothing else would then share a copy.
static bool isAnchored(Value value, Operation *kernel) {
  if (value.getDefiningOp() == kernel)
    return !value.use_empty() && llvm::all_of(value.getUses(), isFixedUse);
  auto argument = dyn_cast<BlockArgument>(value);
  return argument &&
         isa<FunctionOpInterface>(argument.getOwner()->getParentOp()) &&
         argument.getOwner()->isEntryBlock() &&
         llvm::count_if(value.getUses(), [](const OpOperand &use) {
           return !isFixedUse(use);
         }) == 1;
}

/// Returns a lower bound of the cost of another layout for an anchored tensor.
static Cost getCostOfChange(Value value, Operation *kernel,
                            const TargetInfo &target, PlacementMemo &memo) {
  const LayoutCandidates &candidates = memo.getCandidates(
      cast<RankedTensorType>(value.getType()), /*wanted=*/{}, target);
  bool isRead = value.getDefiningOp() != kernel;
  Cost least = Cost::infinite();
  for (unsigned other = 1; other < candidates.layouts.size(); ++other)
    least = std::min(least, isRead ? candidates.getCopyCost(0, other)
                                   : candidates.getCopyCost(other, 0));
  return least;
}

/// Adds the cost of a kernel to `sum`. Returns false if other layouts would
/// make it faster. Only dense layouts are tried, as costs depend on the
/// contiguous dimension.
static bool addLeastCost(Operation *kernel, const TargetInfo &target,
                         PlacementMemo &memo, Cost &sum) {
  SmallVector<TensorLayouts> tensors;
  auto add = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !LayoutGraph::getAccess(kernel, value, target).isFree)
      return true;
    ArrayRef<StridedLayout> orders = memo.getAllOrders(type);
    TensorLayouts &entry = tensors.emplace_back();
    entry.tensor = value;
    for (const StridedLayout &layout : orders)
      entry.layouts.push_back(&layout);
    return !orders.empty();
  };
  if (!llvm::all_of(kernel->getOperands(), add) ||
      !llvm::all_of(kernel->getResults(), add))
    return false;
  double frequency = estimateFrequency(kernel);
  const KernelCosts &costs = memo.getCosts(kernel, tensors, frequency, target);
  sum += costs.current;
  if (!(costs.least < costs.current))
    return true;
  // A better layout may not be worth the copy without which nobody gets it.
  if (frequency != 1.0)
    return false;
  Cost change = Cost::infinite();
  for (const TensorLayouts &entry : tensors)
    change = std::min(change,
                      isAnchored(entry.tensor, kernel)
                          ? getCostOfChange(entry.tensor, kernel, target, memo)
                          : Cost());
  return !(costs.least + change < costs.current);
}

std::optional<Cost> fp8moe::findCertainlyLeastCost(FunctionOpInterface function,
                                                   const TargetInfo &target,
                                                   PlacementMemo &memo) {
  Cost sum;
  WalkResult result = function->walk([&](Operation *op) {
    bool isLeast = LayoutGraph::isKernel(op)
                       ? addLeastCost(op, target, memo, sum)
                       : !LayoutGraph::isPlainRelayout(op);
    return isLeast ? WalkResult::advance() : WalkResult::interrupt();
  });
  return result.wasInterrupted() ? std::nullopt : std::optional(sum);
}

//===----------------------------------------------------------------------===//
// Trials
//===----------------------------------------------------------------------===//

static Cost getPlacedCost(FunctionOpInterface function,
                          const TargetInfo &target, PlacementMemo &memo) {
  LayoutGraph graph(function);
  PlacementProblem problem(graph, target, memo);
  return std::min(problem.getCurrentCost(), problem.solve().cost);
}

Cost PlacementTrials::getCost() {
  return getPlacedCost(function, target, memo);
}

Cost PlacementTrials::tryChange(function_ref<void(IRMapping &)> change) {
  IRMapping mapping;
  OwningOpRef<FunctionOpInterface> clone(
      cast<FunctionOpInterface>(function->clone(mapping)));
  (*clone)->walk([&](Operation *) { ++numCloned; });
  change(mapping);
  eraseDeadOps(*clone);
  return getPlacedCost(*clone, target, memo);
}
