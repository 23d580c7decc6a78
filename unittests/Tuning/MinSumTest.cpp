//===- MinSumTest.cpp - Least cost of coupled choices ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/MinSum.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir::fp8moe;

namespace {

Cost time(int64_t picoseconds) { return {0, picoseconds, 0, 0, 0}; }

/// Random factors over one, two or three of the variables.
MinSumProblem randomProblem(std::mt19937 &rng, unsigned numVariables,
                            unsigned numFactors) {
  auto pick = [&](unsigned limit) { return rng() % limit; };
  MinSumProblem problem;
  std::vector<unsigned> domains;
  for (unsigned i = 0; i < numVariables; ++i) {
    domains.push_back(1 + pick(4));
    problem.addVariable(domains.back());
  }
  for (unsigned i = 0; i < numFactors; ++i) {
    std::vector<unsigned> variables(numVariables);
    for (unsigned v = 0; v < numVariables; ++v)
      variables[v] = v;
    std::shuffle(variables.begin(), variables.end(), rng);
    variables.resize(1 + pick(std::min(3u, numVariables)));
    size_t size = 1;
    for (unsigned variable : variables)
      size *= domains[variable];
    std::vector<Cost> costs(size);
    for (Cost &cost : costs)
      cost = {int32_t(pick(8) == 0), int64_t(pick(5)), int64_t(pick(3)),
              int32_t(pick(2)), int32_t(pick(2))};
    problem.addFactor(variables, costs);
  }
  return problem;
}

TEST(MinSum, ComparesMembersInOrder) {
  EXPECT_LT((Cost{0, 5, 9, 9, 9}), (Cost{1, 0, 0, 0, 0}));
  EXPECT_LT((Cost{0, 1, 9, 9, 9}), (Cost{0, 2, 0, 0, 0}));
  EXPECT_LT((Cost{0, 1, 1, 9, 9}), (Cost{0, 1, 2, 0, 0}));
  EXPECT_LT((Cost{0, 1, 1, 0, 1}), (Cost{0, 1, 1, 1, 0}));
}

TEST(MinSum, ProducerAndConsumerAgree) {
  // The consumer prefers 1 by more than the producer prefers 0.
  MinSumProblem problem;
  auto producer = problem.addVariable(2), consumer = problem.addVariable(2);
  problem.addFactor({producer}, {time(1), time(2)});
  problem.addFactor({consumer}, {time(5), time(1)});
  problem.addFactor({producer, consumer},
                    {time(0), time(10), time(10), time(0)});
  MinSumProblem::Solution solution = problem.solve();
  EXPECT_EQ(solution.values[producer], 1u);
  EXPECT_EQ(solution.values[consumer], 1u);
  EXPECT_EQ(solution.cost, time(3));
  EXPECT_TRUE(solution.isExact);
}

TEST(MinSum, TiesGoToTheSmallerValue) {
  MinSumProblem problem;
  problem.addVariable(3);
  problem.addFactor({0}, {time(1), time(1), time(1)});
  EXPECT_EQ(problem.solve().values[0], 0u);
}

TEST(MinSum, IsExactOnRandomProblems) {
  std::mt19937 rng(20261121);
  for (int i = 0; i < 500; ++i) {
    MinSumProblem problem = randomProblem(rng, 1 + rng() % 7, rng() % 10);
    MinSumProblem::Solution fast = problem.solve();
    MinSumProblem::Solution slow = problem.solveByEnumeration();
    EXPECT_TRUE(fast.isExact);
    EXPECT_EQ(fast.cost, slow.cost) << "problem " << i;
  }
}

TEST(MinSum, CutProblemsStayConsistent) {
  // With no room for tables the result is a guess, but its cost is its own.
  std::mt19937 rng(20261122);
  for (int i = 0; i < 200; ++i) {
    MinSumProblem problem = randomProblem(rng, 6, 8);
    MinSumProblem::Solution guess = problem.solve(/*maxEntries=*/2);
    MinSumProblem::Solution least = problem.solveByEnumeration();
    EXPECT_FALSE(guess.cost < least.cost) << "problem " << i;
    if (guess.isExact) {
      EXPECT_EQ(guess.cost, least.cost) << "problem " << i;
    }
  }
}

TEST(MinSum, LongChainsTakeLinearTime) {
  // A chain of 100,000 variables; a quadratic elimination would not finish.
  MinSumProblem problem;
  constexpr unsigned length = 100000;
  for (unsigned i = 0; i < length; ++i) {
    problem.addVariable(2);
    if (i)
      problem.addFactor({i - 1, i}, {time(0), time(1), time(1), time(0)});
  }
  problem.addFactor({0}, {time(1), time(0)});
  MinSumProblem::Solution solution = problem.solve();
  EXPECT_EQ(solution.cost, time(0));
  EXPECT_EQ(solution.values.back(), 1u);
}

} // namespace
