//===- MinSum.h - Least cost of coupled choices -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A set of variables with small domains and a cost for every combination of the
// values of a few variables at a time (a factor); wanted are the values with
// the least sum. Layout placement is such a problem: a variable is the layout
// of a tensor, a factor the predicted time of a kernel.
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

/// The cost of a choice, compared from the first member to the last. Whole
/// numbers, so that sums do not depend on their order.
struct Cost {
  /// Choices that cannot be made; more than none is never the least.
  int32_t impossible = 0;
  /// Predicted time in picoseconds.
  int64_t time = 0;
  /// Bytes moved to and from device memory.
  int64_t bytes = 0;
  /// Operations that only copy.
  int32_t copies = 0;
  /// Differences from the program as it was: without a reason, nothing changes.
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

/// A cost for every combination of some choices, the last one fastest.
struct CostTable {
  /// The choices, by number.
  llvm::SmallVector<unsigned, 4> choices;
  std::vector<Cost> costs;
};

/// Steps `values` to the next combination, the last one fastest; false after
/// the last.
bool nextCombination(llvm::MutableArrayRef<unsigned> values,
                     llvm::ArrayRef<unsigned> domains);

/// Writes a table over choices with `sizes` options each as a sum of tables:
/// one for each choice whose options cost the same more or less whatever the
/// others are, one for all that depend on each other, and a constant (no
/// choices). Choices without an influence are in none.
std::vector<CostTable> separateCosts(llvm::ArrayRef<unsigned> sizes,
                                     std::vector<Cost> costs);

class MinSumProblem {
public:
  using Variable = unsigned;

  struct Solution {
    /// The value of every variable.
    llvm::SmallVector<unsigned> values;
    Cost cost;
    /// Whether no other values cost less, as far as is known.
    bool isExact;
  };

  /// A variable with the values 0 to `domainSize - 1`, at least one.
  Variable addVariable(unsigned domainSize);

  /// Adds a term of the sum. `costs` has one entry for every combination of
  /// values of `variables`, which are distinct; the last variable changes
  /// fastest.
  void addFactor(llvm::ArrayRef<Variable> variables, std::vector<Cost> costs);

  /// Adds to the cost of one value of one variable.
  void addCost(Variable variable, unsigned value, const Cost &cost) {
    ownCosts[variable][value] += cost;
  }

  /// Eliminates one variable after the other, those that leave small tables
  /// between their neighbours first: exact as long as none of these needs more
  /// than `maxEntries`. Beyond that, the variable with the most factors is
  /// fixed to its locally best value. Ties go to the smaller value, so the
  /// result is deterministic.
  Solution solve(size_t maxEntries = 1 << 12) const;

  /// The least by trying everything; for tests.
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
