//===- PlacementProblem.cpp - Layout placement as a sum to minimise -------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlacementProblem.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Runs of a loop whose trip count is not known: enough that work is worth
/// moving out of it, and no more is claimed.
static constexpr double kUnknownTripCount = 8;
/// Orders of so many dimensions are tried; tensors of the dialect's kernels
/// have at most three.
static constexpr int64_t kMaxPermutedRank = 3;

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

static Cost scale(Cost cost, double frequency) {
  cost.time = static_cast<int64_t>(cost.time * frequency);
  cost.bytes = static_cast<int64_t>(cost.bytes * frequency);
  return cost;
}

/// A difference from the program as it was.
static Cost change(bool differs) {
  Cost cost;
  cost.changes = differs;
  return cost;
}

static RankedTensorType operandType(const LayoutUse &use) {
  return cast<RankedTensorType>(use.operand->get().getType());
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

void PlacementProblem::addCandidates(const LayoutRoot &root) {
  RankedTensorType type = root.getType();
  ArrayRef<int64_t> shape = type.getShape();
  std::vector<StridedLayout> &layouts =
      candidates.emplace_back(1, *StridedLayout::get(type));
  if (layouts.front().groups)
    return;
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
      add(StridedLayout::getDense(shape, order));
    } while (std::next_permutation(inner, order.end()));
  }
  for (const LayoutUse &use : root.uses)
    if (use.kind == LayoutUse::Kind::Fixed)
      if (std::optional<StridedLayout> wanted = LayoutGraph::pullBack(
              use.views, *StridedLayout::get(operandType(use))))
        if (!wanted->groups &&
            !llvm::is_contained(wanted->strides, ShapedType::kDynamic))
          add(*wanted);
}

PlacementProblem::Variable PlacementProblem::addVariable(unsigned domainSize) {
  numCombinations =
      llvm::SaturatingMultiply<uint64_t>(numCombinations, domainSize);
  return problem.addVariable(domainSize);
}

PlacementProblem::PlacementProblem(const LayoutGraph &graph,
                                   const TargetInfo &target)
    : graph(graph), target(target) {
  for (const LayoutRoot &root : graph.getRoots()) {
    addCandidates(root);
    primaryOf.push_back(addVariable(candidates.back().size()));
    readOf.emplace_back();
    for (auto [i, use] : llvm::enumerate(root.uses)) {
      useOf[use.operand] = {primaryOf.size() - 1, i};
      readOf.back().push_back(addVariable(candidates.back().size()));
    }
  }
  llvm::SetVector<Operation *> kernels;
  for (unsigned root = 0; root < graph.getRoots().size(); ++root) {
    addRootFactors(root);
    addCopyFactors(root);
    const LayoutRoot &entry = graph.getRoots()[root];
    if (entry.kind == LayoutRoot::Kind::Kernel)
      kernels.insert(entry.values.front().getDefiningOp());
    for (unsigned use = 0; use < entry.uses.size(); ++use) {
      addUseFactor(root, use);
      if (entry.uses[use].kind == LayoutUse::Kind::Kernel)
        kernels.insert(entry.uses[use].operand->getOwner());
    }
  }
  for (Operation *kernel : kernels)
    addKernelFactor(cast<KernelOpInterface>(kernel));
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// Only kernels and control flow may write another layout than they do.
void PlacementProblem::addRootFactors(unsigned root) {
  const LayoutRoot &entry = graph.getRoots()[root];
  bool free = entry.kind == LayoutRoot::Kind::Region;
  if (entry.kind == LayoutRoot::Kind::Kernel)
    free = cast<KernelOpInterface>(entry.values.front().getDefiningOp())
               .getTensorAccess(entry.values.front(), target)
               .isFree;
  std::vector<Cost> costs;
  for (size_t i = 0; i < candidates[root].size(); ++i)
    costs.push_back(i == 0 || free ? change(i != 0) : Cost::infinite());
  problem.addFactor({primaryOf[root]}, std::move(costs));
}

Cost PlacementProblem::copyCost(unsigned root, unsigned from, unsigned to,
                                double frequency) const {
  if (from == to)
    return {};
  return scale(estimateCopy(graph.getRoots()[root].getType(),
                            candidates[root][from], candidates[root][to],
                            target),
               frequency);
}

/// Whoever reads another layout than the primary one pays for a copy; uses that
/// read the same copy pay once.
void PlacementProblem::addCopyFactors(unsigned root) {
  const LayoutRoot &entry = graph.getRoots()[root];
  unsigned numLayouts = candidates[root].size();
  if (entry.uses.empty() || numLayouts == 1)
    return;
  SmallVector<const LayoutUse *> all = llvm::map_to_vector(
      entry.uses, [](const LayoutUse &use) { return &use; });
  double frequency = findCopySpot(entry, all).frequency;
  if (entry.uses.size() == 1) {
    std::vector<Cost> costs;
    for (unsigned primary = 0; primary < numLayouts; ++primary)
      for (unsigned read = 0; read < numLayouts; ++read)
        costs.push_back(copyCost(root, primary, read, frequency));
    problem.addFactor({primaryOf[root], readOf[root][0]}, std::move(costs));
    return;
  }
  for (unsigned layout = 0; layout < numLayouts; ++layout) {
    Variable exists = addVariable(2);
    std::vector<Cost> costs;
    for (unsigned primary = 0; primary < numLayouts; ++primary) {
      costs.push_back({});
      costs.push_back(primary == layout
                          ? Cost::infinite()
                          : copyCost(root, primary, layout, frequency));
    }
    problem.addFactor({primaryOf[root], exists}, std::move(costs));
    for (Variable read : readOf[root]) {
      std::vector<Cost> needs;
      for (unsigned primary = 0; primary < numLayouts; ++primary)
        for (unsigned copied = 0; copied < 2; ++copied)
          for (unsigned chosen = 0; chosen < numLayouts; ++chosen)
            needs.push_back(chosen == layout && primary != layout && !copied
                                ? Cost::infinite()
                                : Cost());
      problem.addFactor({primaryOf[root], exists, read}, std::move(needs));
    }
  }
}

bool PlacementProblem::canRead(unsigned root, const LayoutUse &use,
                               unsigned candidate) const {
  RankedTensorType type = graph.getRoots()[root].getType();
  std::optional<StridedLayout> seen =
      LayoutGraph::applyViews(use.views, type, candidates[root][candidate]);
  if (!seen)
    return false;
  RankedTensorType wanted = operandType(use);
  auto isExactly = [&] {
    StridedLayout layout = *StridedLayout::get(wanted);
    return seen->isSameAs(layout, wanted.getShape()) &&
           seen->align >= layout.align;
  };
  switch (use.kind) {
  case LayoutUse::Kind::Any:
  case LayoutUse::Kind::Flow:
    return true;
  case LayoutUse::Kind::Fixed:
    return isExactly();
  case LayoutUse::Kind::Kernel:
    return cast<KernelOpInterface>(use.operand->getOwner())
               .getTensorAccess(use.operand->get(), target)
               .isFree ||
           isExactly();
  }
  llvm_unreachable("unknown kind of use");
}

void PlacementProblem::addUseFactor(unsigned root, unsigned use) {
  const LayoutUse &entry = graph.getRoots()[root].uses[use];
  RankedTensorType wanted = operandType(entry),
                   type = graph.getRoots()[root].getType();
  std::vector<Cost> costs;
  for (unsigned i = 0; i < candidates[root].size(); ++i) {
    if (!canRead(root, entry, i)) {
      costs.push_back(Cost::infinite());
      continue;
    }
    StridedLayout seen =
        *LayoutGraph::applyViews(entry.views, type, candidates[root][i]);
    costs.push_back(
        change(!seen.isSameAs(*StridedLayout::get(wanted), wanted.getShape())));
  }
  problem.addFactor({readOf[root][use]}, std::move(costs));
  if (entry.kind != LayoutUse::Kind::Flow)
    return;
  // What flows into a root has the root's layout.
  std::vector<Cost> flow;
  for (const StridedLayout &read : candidates[root]) {
    std::optional<StridedLayout> seen =
        LayoutGraph::applyViews(entry.views, type, read);
    for (const StridedLayout &into : candidates[entry.target])
      flow.push_back(seen && seen->isSameAs(into, wanted.getShape())
                         ? Cost()
                         : Cost::infinite());
  }
  problem.addFactor({readOf[root][use], primaryOf[entry.target]},
                    std::move(flow));
}

/// The time of a kernel couples what it reads with what it writes.
void PlacementProblem::addKernelFactor(KernelOpInterface op) {
  struct Choice {
    Value tensor;
    Variable variable;
    std::vector<std::optional<StridedLayout>> layouts;
  };
  std::vector<Choice> choices;
  for (OpOperand &operand : op->getOpOperands()) {
    auto it = useOf.find(&operand);
    if (it == useOf.end() || !op.getTensorAccess(operand.get(), target).isFree)
      continue;
    auto [root, use] = it->second;
    const LayoutRoot &entry = graph.getRoots()[root];
    Choice choice{operand.get(), readOf[root][use], {}};
    for (const StridedLayout &layout : candidates[root])
      choice.layouts.push_back(LayoutGraph::applyViews(
          entry.uses[use].views, entry.getType(), layout));
    choices.push_back(std::move(choice));
  }
  for (Value result : op->getResults()) {
    std::optional<unsigned> root = graph.lookupRoot(result);
    if (!root || !op.getTensorAccess(result, target).isFree)
      continue;
    Choice choice{result, primaryOf[*root], {}};
    for (const StridedLayout &layout : candidates[*root])
      choice.layouts.push_back(layout);
    choices.push_back(std::move(choice));
  }

  double frequency = estimateFrequency(op);
  SmallVector<unsigned> values(choices.size(), 0);
  std::vector<Cost> costs;
  while (true) {
    SmallVector<AssumedLayout> assumed;
    bool possible = true;
    for (auto [choice, value] : llvm::zip_equal(choices, values)) {
      const std::optional<StridedLayout> &layout = choice.layouts[value];
      possible &= layout.has_value();
      if (layout)
        assumed.push_back({choice.tensor, &*layout});
    }
    costs.push_back(possible
                        ? scale(estimateKernel(op, assumed, target), frequency)
                        : Cost::infinite());
    size_t i = choices.size();
    while (i > 0 && ++values[i - 1] == choices[i - 1].layouts.size())
      values[--i] = 0;
    if (i == 0)
      break;
  }
  problem.addFactor(
      llvm::map_to_vector<4>(
          choices, [](const Choice &choice) { return choice.variable; }),
      std::move(costs));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The ancestor of `op` in `block`, or null.
static Operation *findAncestor(Operation *op, Block *block) {
  return block->findAncestorOpInBlock(*op);
}

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
      Operation *ancestor = findAncestor(use->operand->getOwner(), block);
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
            return findAncestor(use->operand->getOwner(), &region.front());
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

Placement PlacementProblem::solve(bool byEnumeration) const {
  MinSumProblem::Solution solution =
      byEnumeration ? problem.solveByEnumeration() : problem.solve();
  Placement placement;
  placement.cost = solution.cost;
  placement.isExact = solution.isExact;
  for (unsigned root = 0; root < candidates.size(); ++root) {
    RootPlacement &entry = placement.roots.emplace_back();
    entry.primary = candidates[root][solution.values[primaryOf[root]]];
    for (Variable read : readOf[root])
      entry.reads.push_back(candidates[root][solution.values[read]]);
  }
  return placement;
}

Cost fp8moe::evaluateFunction(FunctionOpInterface function,
                              const TargetInfo &target) {
  Cost total;
  function->walk([&](Operation *op) {
    if (auto kernel = dyn_cast<KernelOpInterface>(op)) {
      total += scale(estimateKernel(kernel, {}, target), estimateFrequency(op));
    } else if (LayoutGraph::isPlainRelayout(op) && !isNoopRelayout(op)) {
      auto from = cast<RankedTensorType>(op->getOperand(0).getType());
      auto to = cast<RankedTensorType>(op->getResult(0).getType());
      total += scale(estimateCopy(from, *StridedLayout::get(from),
                                  *StridedLayout::get(to), target),
                     estimateFrequency(op));
    }
  });
  return total;
}
