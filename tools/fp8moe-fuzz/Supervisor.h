//===- Supervisor.h - Workers, finds and figures -------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_SUPERVISOR_H
#define FP8MOE_TOOLS_FUZZ_SUPERVISOR_H

#include "Minimizer.h"

#include <map>

namespace fuzz {

struct RunOptions {
  /// Inputs [first, end); the time may end the run earlier.
  uint64_t first = 0, end = ~uint64_t(0);
  /// 0: no limit.
  int64_t seconds = 0;
  unsigned jobs = 1;
  /// The folder where finds are written; it is there.
  std::string output;
};

/// A defect, with the first input that shows it.
struct Find {
  Death death;
  Kind kind;
  uint64_t index;
  std::string path;
  uint64_t count = 1;
};

/// Keeps workers running over the inputs of a plan.
class Supervisor {
public:
  Supervisor(const Plan &plan, const RunOptions &options);

  void run();

  /// One line for each kind and each find.
  void printSummary(llvm::raw_ostream &os) const;

  /// One test for each kind, for tools that count tests.
  void writeJUnit(llvm::raw_ostream &os) const;

  /// Whether no find is the project's own.
  bool isClean() const;

private:
  struct Job {
    Slot *slot;
    std::unique_ptr<Child> child;
    uint64_t end = 0;
    uint64_t begin = 0;
  };

  /// Gives the job its next inputs, if there are any left.
  void start(Job &job, unsigned number);
  void handleEnd(Job &job, const Ending &ending);
  void addFind(uint64_t index, Death death);

  /// A file for a new find, which is not that of another run.
  std::string choosePath(const Death &death, Kind kind) const;

  /// The input of [begin, end) that leaks, as far as that can be told.
  uint64_t findLeak(uint64_t begin, uint64_t end);

  void printProgress() const;
  uint64_t count(Kind kind, std::atomic<uint64_t> Counters::*counter) const;

  const Plan &plan;
  const RunOptions &options;
  std::vector<Job> jobs;
  /// For inputs that are tried again.
  Slot &trialSlot;
  uint64_t next;
  int64_t began;
  std::map<std::string, Find> finds;
};

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_SUPERVISOR_H
