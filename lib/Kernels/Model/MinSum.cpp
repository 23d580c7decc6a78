//===- MinSum.cpp - Least cost of coupled choices -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/MinSum.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <deque>
#include <optional>

using namespace mlir::fp8moe;

/// Tables between neighbours are let grow by this factor when none is smaller.
static constexpr size_t kTableGrowth = 4;

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

MinSumProblem::Variable MinSumProblem::addVariable(unsigned domainSize) {
  assert(domainSize > 0 && "a variable needs a value");
  ownCosts.emplace_back(domainSize);
  return ownCosts.size() - 1;
}

void MinSumProblem::addFactor(llvm::ArrayRef<Variable> variables,
                              std::vector<Cost> costs) {
  if (variables.size() == 1) {
    for (auto [value, cost] : llvm::enumerate(costs))
      addCost(variables.front(), value, cost);
    return;
  }
  factors.push_back({{variables.begin(), variables.end()}, std::move(costs)});
}

bool mlir::fp8moe::nextCombination(llvm::MutableArrayRef<unsigned> values,
                                   llvm::ArrayRef<unsigned> domains) {
  for (size_t i = values.size(); i-- > 0;) {
    if (++values[i] < domains[i])
      return true;
    values[i] = 0;
  }
  return false;
}

Cost MinSumProblem::evaluate(llvm::ArrayRef<unsigned> values) const {
  Cost sum;
  for (auto [costs, value] : llvm::zip_equal(ownCosts, values))
    sum += costs[value];
  for (const Factor &factor : factors) {
    size_t index = 0;
    for (Variable variable : factor.variables)
      index = index * getDomain(variable) + values[variable];
    sum += factor.costs[index];
  }
  return sum;
}

MinSumProblem::Solution MinSumProblem::solveByEnumeration() const {
  llvm::SmallVector<unsigned> domains = llvm::map_to_vector(
      ownCosts, [](const auto &costs) -> unsigned { return costs.size(); });
  llvm::SmallVector<unsigned> values(domains.size(), 0);
  Solution best{values, evaluate(values), /*isExact=*/true};
  while (nextCombination(values, domains)) {
    Cost cost = evaluate(values);
    if (cost < best.cost) {
      best.values = values;
      best.cost = cost;
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Separation
//===----------------------------------------------------------------------===//

/// The extra cost of each option of a choice over its first one, if it is the
/// same for all options of the others. The entries for one option and the next
/// are `stride` apart.
static std::optional<std::vector<Cost>>
findOwnCosts(llvm::ArrayRef<Cost> costs, size_t stride, unsigned size) {
  std::vector<Cost> own(size);
  for (size_t option = 1; option < size; ++option)
    own[option] = costs[option * stride] - costs[0];
  for (size_t block = 0; block < costs.size(); block += stride * size)
    for (size_t first = block; first < block + stride; ++first)
      for (size_t option = 1; option < size; ++option)
        if (!(costs[first + option * stride] == costs[first] + own[option]))
          return std::nullopt;
  return own;
}

std::vector<CostTable>
mlir::fp8moe::separateCosts(llvm::ArrayRef<unsigned> sizes,
                            std::vector<Cost> costs) {
  std::vector<CostTable> tables;
  CostTable rest;
  size_t stride = costs.size();
  for (auto [choice, size] : llvm::enumerate(sizes)) {
    // The table shrinks: choices before are gone or in `rest`, so the stride
    // is the product of the sizes behind.
    stride /= size;
    std::optional<std::vector<Cost>> own = findOwnCosts(costs, stride, size);
    if (!own) {
      rest.choices.push_back(choice);
      continue;
    }
    // Keep the entries of the first option.
    size_t kept = 0;
    for (size_t block = 0; block < costs.size(); block += stride * size)
      for (size_t i = 0; i < stride; ++i)
        costs[kept++] = costs[block + i];
    costs.resize(kept);
    if (!llvm::all_equal(*own))
      tables.push_back({{static_cast<unsigned>(choice)}, std::move(*own)});
  }
  rest.costs = std::move(costs);
  tables.push_back(std::move(rest));
  return tables;
}

//===----------------------------------------------------------------------===//
// Elimination
//===----------------------------------------------------------------------===//

namespace mlir::fp8moe {

/// The state of one elimination.
class MinSumElimination {
public:
  using Variable = MinSumProblem::Variable;
  using Factor = MinSumProblem::Factor;

  MinSumElimination(const MinSumProblem &problem, size_t maxEntries)
      : maxEntries(maxEntries), ownCosts(problem.ownCosts),
        factorsOf(ownCosts.size()), numFactors(ownCosts.size(), 0),
        isGone(ownCosts.size(), false), current(ownCosts.size(), 0) {
    for (const Factor &factor : problem.factors)
      connect(factor);
    for (Variable variable = ownCosts.size(); variable-- > 0;)
      enqueue(variable);
  }

  /// True when every table was small enough.
  bool run() {
    size_t limit = std::min<size_t>(kTableGrowth, maxEntries);
    size_t numGone = 0;
    while (true) {
      while (std::optional<Variable> variable = dequeue()) {
        if (getTableSize(getNeighbours(*variable)) > limit) {
          deferred.push_back(*variable);
          continue;
        }
        eliminate(*variable);
        ++numGone;
      }
      llvm::sort(deferred);
      deferred.erase(llvm::unique(deferred), deferred.end());
      llvm::erase_if(deferred, [&](Variable v) { return isGone[v]; });
      if (deferred.empty())
        return isExact;
      // The eliminations since then may have made other tables smaller.
      if (numGone == 0 && limit == maxEntries)
        fixOne();
      else if (numGone == 0)
        limit = std::min(limit * kTableGrowth, maxEntries);
      numGone = 0;
      for (Variable variable : llvm::reverse(deferred))
        enqueue(variable);
      deferred.clear();
    }
  }

  /// The sum of what is left when every variable is gone.
  const Cost &getConstant() const { return constant; }

  llvm::SmallVector<unsigned> backSubstitute() const {
    llvm::SmallVector<unsigned> values(ownCosts.size(), 0);
    for (const Step &step : llvm::reverse(steps)) {
      size_t index = 0;
      for (Variable neighbour : step.neighbours)
        index = index * getDomain(neighbour) + values[neighbour];
      values[step.variable] = step.best[index];
    }
    return values;
  }

private:
  /// The best value of an eliminated variable, given the values of its
  /// neighbours.
  struct Step {
    Variable variable;
    llvm::SmallVector<Variable, 4> neighbours;
    llvm::SmallVector<unsigned, 4> best;
  };

  unsigned getDomain(Variable variable) const {
    return ownCosts[variable].size();
  }

  //===--------------------------------------------------------------------===//
  // Factors
  //===--------------------------------------------------------------------===//

  /// Makes `factor`, which must stay where it is, the last one.
  void connect(const Factor &factor) {
    for (Variable variable : factor.variables) {
      factorsOf[variable].push_back(factors.size());
      ++numFactors[variable];
    }
    factors.push_back(&factor);
  }

  void addFactor(Factor factor) {
    if (factor.variables.empty()) {
      constant += factor.costs.front();
      return;
    }
    if (factor.variables.size() == 1) {
      for (auto [own, cost] :
           llvm::zip_equal(ownCosts[factor.variables.front()], factor.costs))
        own += cost;
      return;
    }
    created.push_back(std::move(factor));
    connect(created.back());
  }

  void removeFactor(size_t index) {
    for (Variable variable : factors[index]->variables)
      --numFactors[variable];
    factors[index] = nullptr;
  }

  /// The factors of a variable, first ones first. Factors that are gone are
  /// dropped only here, so that removing one costs the same however many there
  /// are.
  llvm::ArrayRef<size_t> getFactors(Variable variable) {
    llvm::SmallVectorImpl<size_t> &list = factorsOf[variable];
    if (list.size() != numFactors[variable])
      llvm::erase_if(list, [&](size_t i) { return !factors[i]; });
    return list;
  }

  llvm::SmallVector<Variable, 4> getNeighbours(Variable variable) {
    llvm::SmallVector<Variable, 4> found;
    for (size_t i : getFactors(variable))
      for (Variable other : factors[i]->variables)
        if (other != variable)
          found.push_back(other);
    llvm::sort(found);
    found.erase(llvm::unique(found), found.end());
    return found;
  }

  size_t getTableSize(llvm::ArrayRef<Variable> variables) const {
    size_t size = 1;
    for (Variable variable : variables) {
      size *= getDomain(variable);
      if (size > maxEntries)
        break;
    }
    return size;
  }

  //===--------------------------------------------------------------------===//
  // Order
  //===--------------------------------------------------------------------===//

  /// Fewest factors first: their number bounds that of the neighbours and
  /// costs nothing to know. Entries of which that is no longer true stay, as
  /// whoever changes it makes a new one.
  void enqueue(Variable variable) {
    size_t place = numFactors[variable];
    if (queue.size() <= place)
      queue.resize(place + 1);
    queue[place].push_back(variable);
    firstInQueue = std::min(firstInQueue, place);
  }

  std::optional<Variable> dequeue() {
    for (; firstInQueue < queue.size(); ++firstInQueue)
      while (!queue[firstInQueue].empty()) {
        Variable variable = queue[firstInQueue].pop_back_val();
        if (!isGone[variable] && numFactors[variable] == firstInQueue)
          return variable;
      }
    return std::nullopt;
  }

  void retire(Variable variable, llvm::ArrayRef<Variable> neighbours) {
    isGone[variable] = true;
    for (Variable neighbour : neighbours)
      enqueue(neighbour);
  }

  //===--------------------------------------------------------------------===//
  // Elimination
  //===--------------------------------------------------------------------===//

  /// The sum of `touching` for the values in `current`.
  Cost sumFactors(llvm::ArrayRef<size_t> touching) const {
    Cost sum;
    for (size_t i : touching) {
      size_t index = 0;
      for (Variable variable : factors[i]->variables)
        index = index * getDomain(variable) + current[variable];
      sum += factors[i]->costs[index];
    }
    return sum;
  }

  /// Replaces the factors of a variable by one between its neighbours, with the
  /// variable's best value.
  void eliminate(Variable variable) {
    llvm::SmallVector<size_t> touching(getFactors(variable));
    Step step{variable, getNeighbours(variable), {}};
    llvm::SmallVector<unsigned, 4> domains = llvm::map_to_vector<4>(
        step.neighbours, [&](Variable v) { return getDomain(v); });
    llvm::SmallVector<unsigned, 4> values(domains.size(), 0);
    Factor factor{{step.neighbours.begin(), step.neighbours.end()}, {}};
    do {
      for (auto [neighbour, value] : llvm::zip_equal(step.neighbours, values))
        current[neighbour] = value;
      Cost least;
      unsigned best = 0;
      for (unsigned value = 0; value < getDomain(variable); ++value) {
        current[variable] = value;
        Cost cost = ownCosts[variable][value] + sumFactors(touching);
        if (value > 0 && !(cost < least))
          continue;
        least = cost;
        best = value;
      }
      factor.costs.push_back(least);
      step.best.push_back(best);
    } while (nextCombination(values, domains));
    for (size_t i : touching)
      removeFactor(i);
    addFactor(std::move(factor));
    steps.push_back(std::move(step));
    retire(variable, steps.back().neighbours);
  }

  /// No variable can be eliminated within the limit: fixes that with the most
  /// factors.
  void fixOne() {
    isExact = false;
    fix(*std::max_element(
        deferred.begin(), deferred.end(), [&](Variable a, Variable b) {
          return std::pair(numFactors[a], a) < std::pair(numFactors[b], b);
        }));
  }

  /// Fixes a variable to the value that is best when every factor takes its
  /// least.
  void fix(Variable variable) {
    llvm::SmallVector<size_t> touching(getFactors(variable));
    llvm::SmallVector<Cost, 2> sums(ownCosts[variable]);
    for (size_t i : touching) {
      std::vector<std::optional<Cost>> least(sums.size());
      forEachEntry(*factors[i], variable,
                   [&](unsigned value, const Cost &cost) {
                     if (!least[value] || cost < *least[value])
                       least[value] = cost;
                   });
      for (auto [sum, cost] : llvm::zip_equal(sums, least))
        sum += *cost;
    }
    unsigned best =
        std::distance(sums.begin(), std::min_element(sums.begin(), sums.end()));
    constant += ownCosts[variable][best];
    llvm::SmallVector<Variable, 4> neighbours = getNeighbours(variable);
    for (size_t i : touching) {
      Factor rest;
      for (Variable other : factors[i]->variables)
        if (other != variable)
          rest.variables.push_back(other);
      forEachEntry(*factors[i], variable,
                   [&](unsigned value, const Cost &cost) {
                     if (value == best)
                       rest.costs.push_back(cost);
                   });
      removeFactor(i);
      addFactor(std::move(rest));
    }
    steps.push_back({variable, {}, {best}});
    retire(variable, neighbours);
  }

  /// Calls `visit(value of variable, cost)` for the entries of a table, in
  /// order.
  template <typename Visit>
  void forEachEntry(const Factor &factor, Variable variable,
                    Visit visit) const {
    llvm::SmallVector<unsigned, 4> domains = llvm::map_to_vector<4>(
        factor.variables, [&](Variable v) { return getDomain(v); });
    size_t place =
        llvm::find(factor.variables, variable) - factor.variables.begin();
    llvm::SmallVector<unsigned, 4> values(domains.size(), 0);
    size_t index = 0;
    do {
      visit(values[place], factor.costs[index++]);
    } while (nextCombination(values, domains));
  }

  size_t maxEntries;
  bool isExact = true;
  std::vector<llvm::SmallVector<Cost, 2>> ownCosts;
  /// The factors of the problem and then those created; null when gone.
  std::vector<const Factor *> factors;
  std::deque<Factor> created;
  /// For each variable its factors, with some that are gone, and how many are
  /// not.
  std::vector<llvm::SmallVector<size_t, 4>> factorsOf;
  std::vector<size_t> numFactors;
  std::vector<bool> isGone;
  /// Variables by their number of factors.
  std::vector<llvm::SmallVector<Variable, 0>> queue;
  size_t firstInQueue = 0;
  /// Variables whose tables were over the limit.
  llvm::SmallVector<Variable> deferred;
  std::vector<Step> steps;
  std::vector<unsigned> current;
  Cost constant;
};

} // namespace mlir::fp8moe

MinSumProblem::Solution MinSumProblem::solve(size_t maxEntries) const {
  MinSumElimination elimination(*this, maxEntries);
  bool isExact = elimination.run();
  return {elimination.backSubstitute(), elimination.getConstant(), isExact};
}
