//===- MinSumTest.cpp - Least cost of coupled choices ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/MinSum.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir::fp8moe;

namespace {

Cost time(int64_t picoseconds) { return {0, picoseconds, 0, 0, 0}; }

/// Returns random factors over one, two or three of the variables.
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
  // The consumer's preference for 1 is stronger than the producer's for 0.
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
  // Without room for tables the result is a heuristic, but the returned cost
  // must match it.
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

TEST(MinSum, SharedChoicesStayApart) {
  // Each link of a chain depends on one of sixteen shared choices, and links do
  // not depend on each other.
  MinSumProblem problem;
  std::vector<unsigned> shared(16), links;
  for (unsigned &variable : shared) {
    variable = problem.addVariable(2);
    problem.addCost(variable, 1, time(3));
  }
  for (unsigned i = 0; i < 1000; ++i) {
    links.push_back(problem.addVariable(2));
    problem.addFactor({shared[i % 16], links.back()},
                      {time(1), time(2), time(4), time(0)});
  }
  MinSumProblem::Solution solution = problem.solve(/*maxEntries=*/4);
  EXPECT_TRUE(solution.isExact);
  EXPECT_EQ(solution.cost, time(16 * 3));
}

TEST(MinSum, SeparatesSums) {
  // a * 10 + (b != c), for 2 * 3 * 3 options, and one choice without influence.
  std::vector<Cost> costs;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int unused = 0; unused < 2; ++unused)
        for (int c = 0; c < 3; ++c)
          costs.push_back(time(7 + a * 10 + (b != c)));
  std::vector<CostTable> tables = separateCosts({2, 3, 2, 3}, costs);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].choices, (llvm::SmallVector<unsigned, 4>{0}));
  EXPECT_EQ(tables[0].costs, (std::vector<Cost>{time(0), time(10)}));
  EXPECT_EQ(tables[1].choices, (llvm::SmallVector<unsigned, 4>{1, 3}));
  ASSERT_EQ(tables[1].costs.size(), 9u);
  for (int b = 0; b < 3; ++b)
    for (int c = 0; c < 3; ++c)
      EXPECT_EQ(tables[1].costs[b * 3 + c], time(7 + (b != c)));
}

TEST(MinSum, SeparatedRandomTablesSumUp) {
  std::mt19937 rng(20261123);
  for (int i = 0; i < 200; ++i) {
    std::vector<unsigned> sizes{1 + unsigned(rng() % 3),
                                1 + unsigned(rng() % 3),
                                1 + unsigned(rng() % 3)};
    std::vector<Cost> own(9);
    for (Cost &cost : own)
      cost = {int32_t(rng() % 3 == 0), int64_t(rng() % 5), 0, 0, 0};
    std::vector<Cost> costs;
    for (unsigned a = 0; a < sizes[0]; ++a)
      for (unsigned b = 0; b < sizes[1]; ++b)
        for (unsigned c = 0; c < sizes[2]; ++c)
          costs.push_back(own[a] + own[3 + b] + own[6 + c] +
                          time(i % 2 && a == b));
    std::vector<CostTable> tables = separateCosts(sizes, costs);
    size_t index = 0;
    for (unsigned a = 0; a < sizes[0]; ++a)
      for (unsigned b = 0; b < sizes[1]; ++b)
        for (unsigned c = 0; c < sizes[2]; ++c) {
          unsigned values[] = {a, b, c};
          Cost sum;
          for (const CostTable &table : tables) {
            size_t place = 0;
            for (unsigned choice : table.choices)
              place = place * sizes[choice] + values[choice];
            sum += table.costs[place];
          }
          EXPECT_EQ(sum, costs[index++]) << "table " << i;
        }
  }
}

TEST(MinSum, LongChainsTakeLinearTime) {
  // A chain of 100,000 variables. A quadratic elimination would not finish.
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
