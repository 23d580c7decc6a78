//===- MinSum.h - Least cost of coupled choices -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A minimization over variables with small domains. The cost is a sum of
// factors, each a table over the values of a few variables. In layout placement
// a variable is the layout of a tensor, and a factor is the predicted time of a
// kernel.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_MINSUM_H
#define FP8MOE_KERNELS_MODEL_MINSUM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <tuple>
#include <vector>

namespace mlir::fp8moe {

/// The cost of a choice, compared lexicographically in the order of the
/// members. Members are integers, so that sums do not depend on their order.
struct Cost {
  /// The number of illegal choices. A cost with any is more than every cost
  /// without.
  int32_t impossible = 0;
  /// Predicted time in picoseconds.
  int64_t time = 0;
  /// Bytes moved to and from device memory.
  int64_t bytes = 0;
  /// Operations that only copy.
  int32_t copies = 0;
  /// Differences from the current program. They break ties in favour of no
  /// change.
  int32_t changes = 0;

  static Cost infinite() { return {1, 0, 0, 0, 0}; }
  bool isPossible() const { return impossible == 0; }

  Cost &operator+=(const Cost &other) {
    impossible += other.impossible;
    time += other.time;
    bytes += other.bytes;
    copies += other.copies;
    changes += other.changes;
    return *this;
  }
  Cost &operator-=(const Cost &other) {
    impossible -= other.impossible;
    time -= other.time;
    bytes -= other.bytes;
    copies -= other.copies;
    changes -= other.changes;
    return *this;
  }
  friend Cost operator+(Cost a, const Cost &b) { return a += b; }
  friend Cost operator-(Cost a, const Cost &b) { return a -= b; }
  friend bool operator<(const Cost &a, const Cost &b) {
    return std::tie(a.impossible, a.time, a.bytes, a.copies, a.changes) <
           std::tie(b.impossible, b.time, b.bytes, b.copies, b.changes);
  }
  friend bool operator==(const Cost &a, const Cost &b) {
    return std::tie(a.impossible, a.time, a.bytes, a.copies, a.changes) ==
           std::tie(b.impossible, b.time, b.bytes, b.copies, b.changes);
  }
};

/// A cost for every combination of options of some choices. The last choice
/// varies fastest.
struct CostTable {
  /// Numbers of the choices.
  llvm::SmallVector<unsigned, 4> choices;
  std::vector<Cost> costs;
};

/// Advances `values` to the next combination, the last value fastest. Returns
/// false after the last combination.
bool nextCombination(llvm::MutableArrayRef<unsigned> values,
                     llvm::ArrayRef<unsigned> domains);

/// Splits a table over choices with `sizes` options each into a sum of tables.
/// A choice whose cost differences do not depend on the others gets its own
/// table. All other choices share the last table, which also has the constant.
/// A choice without influence on the cost is in no table.
std::vector<CostTable> separateCosts(llvm::ArrayRef<unsigned> sizes,
                                     std::vector<Cost> costs);

class MinSumProblem {
public:
  using Variable = unsigned;

  struct Solution {
    /// The value of every variable.
    llvm::SmallVector<unsigned> values;
    Cost cost;
    /// Whether the solver has proven that no other values cost less.
    bool isExact;
  };

  /// Adds a variable with the values 0 to `domainSize - 1`. `domainSize` is at
  /// least 1.
  Variable addVariable(unsigned domainSize);

  /// Adds a factor to the sum. `costs` has one entry for every combination of
  /// values of `variables`, which are distinct. The last variable varies
  /// fastest.
  void addFactor(llvm::ArrayRef<Variable> variables, std::vector<Cost> costs);

  /// Adds to the cost of one value of one variable.
  void addCost(Variable variable, unsigned value, const Cost &cost) {
    ownCosts[variable][value] += cost;
  }

  /// Eliminates variables one by one, those with small resulting tables first.
  /// Exact as long as no table needs more than `maxEntries`. Beyond that, the
  /// variable with the most factors is fixed to its locally best value. Ties go
  /// to the smaller value, so the result is deterministic.
  Solution solve(size_t maxEntries = 1 << 12) const;

  /// Returns the minimum by enumeration; for tests.
  Solution solveByEnumeration() const;

private:
  friend class MinSumElimination;

  struct Factor {
    llvm::SmallVector<Variable, 4> variables;
    std::vector<Cost> costs;
  };

  unsigned getDomain(Variable variable) const {
    return ownCosts[variable].size();
  }
  Cost evaluate(llvm::ArrayRef<unsigned> values) const;

  /// The cost of each value of each variable by itself.
  std::vector<llvm::SmallVector<Cost, 2>> ownCosts;
  std::vector<Factor> factors;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_MINSUM_H
