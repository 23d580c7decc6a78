//===- MinSum.cpp - Least cost of coupled choices -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/MinSum.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <deque>
#include <numeric>
#include <optional>
#include <set>

using namespace mlir::fp8moe;

MinSumProblem::Variable MinSumProblem::addVariable(unsigned domainSize) {
  assert(domainSize > 0 && "a variable needs a value");
  domains.push_back(domainSize);
  return domains.size() - 1;
}

void MinSumProblem::addFactor(llvm::ArrayRef<Variable> variables,
                              std::vector<Cost> costs) {
  factors.push_back({{variables.begin(), variables.end()}, std::move(costs)});
}

/// Steps `values` to the next combination, the last one fastest; false after
/// the last.
static bool nextCombination(llvm::MutableArrayRef<unsigned> values,
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
  for (const Factor &factor : factors) {
    size_t index = 0;
    for (Variable variable : factor.variables)
      index = index * domains[variable] + values[variable];
    sum += factor.costs[index];
  }
  return sum;
}

MinSumProblem::Solution MinSumProblem::solveByEnumeration() const {
  llvm::SmallVector<unsigned> values(domains.size(), 0);
  Solution best{values, evaluate(values), true};
  while (nextCombination(values, domains)) {
    Cost cost = evaluate(values);
    if (cost < best.cost) {
      best.values = values;
      best.cost = cost;
    }
  }
  return best;
}

namespace mlir::fp8moe {

/// The state of one elimination.
class MinSumElimination {
public:
  using Variable = MinSumProblem::Variable;
  using Factor = MinSumProblem::Factor;

  MinSumElimination(const MinSumProblem &problem, size_t maxEntries)
      : problem(problem), maxEntries(maxEntries),
        factorsOf(problem.domains.size()),
        numFactors(problem.domains.size(), 0),
        queuedAs(problem.domains.size(), 0) {
    for (const Factor &factor : problem.factors)
      connect(factor);
    for (Variable variable = 0; variable < problem.domains.size(); ++variable) {
      queuedAs[variable] = numFactors[variable];
      queue.insert({queuedAs[variable], variable});
    }
  }

  MinSumProblem::Solution run() {
    while (!queue.empty()) {
      Variable variable = queue.begin()->second;
      if (tableSize(getNeighbours(variable)) <= maxEntries) {
        eliminate(variable);
        continue;
      }
      solution.isExact = false;
      fix(queue.rbegin()->second);
    }
    return backSubstitute();
  }

private:
  /// What an eliminated variable becomes, given the values of its neighbours.
  struct Step {
    Variable variable;
    llvm::SmallVector<Variable> neighbours;
    std::vector<unsigned> best;
  };

  /// Makes `factor`, which must stay where it is, the last one.
  void connect(const Factor &factor) {
    for (Variable variable : factor.variables) {
      factorsOf[variable].push_back(factors.size());
      ++numFactors[variable];
    }
    factors.push_back(&factor);
  }

  /// The factors of a variable, first ones first. Those that are gone are
  /// dropped only here, so that removing one costs the same however many there
  /// are.
  llvm::ArrayRef<size_t> getFactors(Variable variable) {
    llvm::SmallVectorImpl<size_t> &list = factorsOf[variable];
    if (list.size() != numFactors[variable])
      llvm::erase_if(list, [&](size_t i) { return !factors[i]; });
    return list;
  }

  llvm::SmallVector<Variable> getNeighbours(Variable variable) {
    llvm::SmallVector<Variable> found;
    for (size_t i : getFactors(variable))
      for (Variable other : factors[i]->variables)
        if (other != variable)
          found.push_back(other);
    llvm::sort(found);
    found.erase(llvm::unique(found), found.end());
    return found;
  }

  size_t tableSize(llvm::ArrayRef<Variable> variables) const {
    size_t size = 1;
    for (Variable variable : variables) {
      size *= problem.domains[variable];
      if (size > maxEntries)
        break;
    }
    return size;
  }

  /// The queue orders variables by their number of factors, which bounds the
  /// number of neighbours and costs nothing to know, then by number.
  void updateQueue(Variable variable) {
    if (queuedAs[variable] == numFactors[variable])
      return;
    auto node = queue.extract({queuedAs[variable], variable});
    queuedAs[variable] = numFactors[variable];
    node.value().first = queuedAs[variable];
    queue.insert(std::move(node));
  }

  void removeFactor(size_t index) {
    for (Variable variable : factors[index]->variables)
      --numFactors[variable];
    factors[index] = nullptr;
  }

  /// The sum of `touching` for the values in `current`.
  Cost sumFactors(llvm::ArrayRef<size_t> touching,
                  llvm::ArrayRef<unsigned> current) const {
    Cost sum;
    for (size_t i : touching) {
      size_t index = 0;
      for (Variable variable : factors[i]->variables)
        index = index * problem.domains[variable] + current[variable];
      sum += factors[i]->costs[index];
    }
    return sum;
  }

  void eliminate(Variable variable) {
    Step step{variable, getNeighbours(variable), {}};
    llvm::SmallVector<unsigned> neighbourDomains = llvm::map_to_vector(
        step.neighbours, [&](Variable v) { return problem.domains[v]; });
    llvm::SmallVector<size_t> touching(getFactors(variable));
    current.resize(problem.domains.size());
    llvm::SmallVector<unsigned> values(step.neighbours.size(), 0);
    std::vector<Cost> costs;
    do {
      for (auto [neighbour, value] : llvm::zip_equal(step.neighbours, values))
        current[neighbour] = value;
      std::optional<Cost> least;
      unsigned best = 0;
      for (unsigned value = 0; value < problem.domains[variable]; ++value) {
        current[variable] = value;
        Cost cost = sumFactors(touching, current);
        if (!least || cost < *least) {
          least = cost;
          best = value;
        }
      }
      costs.push_back(*least);
      step.best.push_back(best);
    } while (nextCombination(values, neighbourDomains));
    finish(std::move(step), touching, std::move(costs));
  }

  /// Fixes a variable to the value that is best when every factor takes its
  /// least.
  void fix(Variable variable) {
    llvm::SmallVector<size_t> touching(getFactors(variable));
    std::vector<Cost> bound(problem.domains[variable]);
    for (size_t i : touching) {
      std::vector<std::optional<Cost>> least(bound.size());
      forEachEntry(*factors[i], variable,
                   [&](unsigned value, const Cost &cost, size_t) {
                     if (!least[value] || cost < *least[value])
                       least[value] = cost;
                   });
      for (size_t value = 0; value < bound.size(); ++value)
        bound[value] += *least[value];
    }
    unsigned best = std::distance(bound.begin(),
                                  std::min_element(bound.begin(), bound.end()));
    llvm::SmallVector<Variable> neighbours = getNeighbours(variable);
    for (size_t i : touching) {
      Factor rest;
      for (Variable other : factors[i]->variables)
        if (other != variable)
          rest.variables.push_back(other);
      forEachEntry(*factors[i], variable,
                   [&](unsigned value, const Cost &cost, size_t) {
                     if (value == best)
                       rest.costs.push_back(cost);
                   });
      removeFactor(i);
      addFactor(std::move(rest));
    }
    steps.push_back({variable, {}, {best}});
    retire(variable, neighbours);
  }

  /// Calls `visit(value of variable, cost, index)` for the entries of a table,
  /// in order.
  template <typename Visit>
  void forEachEntry(const Factor &factor, Variable variable,
                    Visit visit) const {
    llvm::SmallVector<unsigned> factorDomains = llvm::map_to_vector(
        factor.variables, [&](Variable v) { return problem.domains[v]; });
    size_t place =
        llvm::find(factor.variables, variable) - factor.variables.begin();
    llvm::SmallVector<unsigned> values(factorDomains.size(), 0);
    size_t index = 0;
    do {
      visit(values[place], factor.costs[index], index);
      ++index;
    } while (nextCombination(values, factorDomains));
  }

  void addFactor(Factor factor) {
    if (factor.variables.empty()) {
      constant += factor.costs[0];
      return;
    }
    created.push_back(std::move(factor));
    connect(created.back());
  }

  void finish(Step step, llvm::ArrayRef<size_t> touching,
              std::vector<Cost> costs) {
    for (size_t i : touching)
      removeFactor(i);
    addFactor(
        {{step.neighbours.begin(), step.neighbours.end()}, std::move(costs)});
    llvm::SmallVector<Variable> neighbours = step.neighbours;
    Variable variable = step.variable;
    steps.push_back(std::move(step));
    retire(variable, neighbours);
  }

  void retire(Variable variable, llvm::ArrayRef<Variable> neighbours) {
    queue.erase({queuedAs[variable], variable});
    for (Variable neighbour : neighbours)
      updateQueue(neighbour);
  }

  MinSumProblem::Solution backSubstitute() {
    solution.values.assign(problem.domains.size(), 0);
    for (const Step &step : llvm::reverse(steps)) {
      size_t index = 0;
      for (Variable neighbour : step.neighbours)
        index = index * problem.domains[neighbour] + solution.values[neighbour];
      solution.values[step.variable] = step.best[index];
    }
    solution.cost = constant;
    return std::move(solution);
  }

  const MinSumProblem &problem;
  size_t maxEntries;
  /// The factors of the problem and then those created; null when gone.
  std::vector<const Factor *> factors;
  std::deque<Factor> created;
  /// For each variable its factors, with some that are gone.
  std::vector<llvm::SmallVector<size_t, 4>> factorsOf;
  /// How many of them are not gone, and how many were when the queue was told.
  std::vector<size_t> numFactors, queuedAs;
  std::set<std::pair<size_t, Variable>> queue;
  std::vector<Step> steps;
  std::vector<unsigned> current;
  Cost constant;
  MinSumProblem::Solution solution;
};

} // namespace mlir::fp8moe

MinSumProblem::Solution MinSumProblem::solve(size_t maxEntries) const {
  return MinSumElimination(*this, maxEntries).run();
}
