//===- Child.h - A process that may die ----------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_CHILD_H
#define FP8MOE_TOOLS_FUZZ_CHILD_H

#include "Session.h"

#include <functional>
#include <sys/types.h>

namespace fuzz {

/// How a child ended.
struct Ending {
  enum class Reason { Done, Died, Hung, OutOfMemory };
  Reason reason = Reason::Done;
  /// As waitpid gives it.
  int status = 0;
  /// The text that it wrote to standard error.
  std::string log;
};

/// Runs code in a process of its own, with limits on the time of one input and
/// on memory.
class Child {
public:
  /// Forks; the child calls `body` and exits with status 0 behind it. Its
  /// standard error goes to the file `logPath`.
  Child(Slot &slot, std::string logPath, const std::function<void()> &body);
  Child(const Child &) = delete;
  ~Child();

  /// How it ended, or nothing while it runs. Enforces the limits, so it is to
  /// be called often.
  std::optional<Ending> poll();

  /// Polls until it ends.
  Ending wait();

private:
  /// Asks for a stack first, and insists later.
  void stop(Ending::Reason why);

  Slot &slot;
  std::string logPath;
  pid_t pid;
  Ending::Reason reason = Ending::Reason::Done;
  int64_t stoppedAt = 0;
};

/// Nanoseconds of the monotonic clock, and of processor time of this process.
int64_t readClock();
int64_t readCpuTime();

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_CHILD_H
