//===- Worker.h - Reading many inputs in one process ---------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_WORKER_H
#define FP8MOE_TOOLS_FUZZ_WORKER_H

#include "Child.h"

#include <memory>

namespace fuzz {

/// The settings that all processes share.
struct Plan {
  Corpus corpus;
  std::vector<Kind> kinds;
  uint64_t seed = 0;
  /// A folder for temporary files, one below it for each worker.
  std::string scratch;
  /// Inputs with this text end their process, to test what comes then.
  std::string deadlyText;
};

/// Starts a worker that reads inputs [begin, end) of the plan and then looks
/// for leaks, if it was built to find them.
std::unique_ptr<Child> startWorker(const Plan &plan, uint64_t begin,
                                   uint64_t end, unsigned number, Slot &slot);

/// Starts a worker that reads one input.
std::unique_ptr<Child> startReader(const Plan &plan, const Input &input,
                                   unsigned number, Slot &slot);

/// A slot in memory that children share.
Slot &makeSlot();

/// Makes LLVM's fatal errors and signals leave a stack. To be called before
/// the first fork.
void installHandlers(char **argv);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_WORKER_H
