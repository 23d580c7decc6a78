//===- Worker.cpp - Reading many inputs in one process --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Worker.h"

#include "Generator.h"
#include "Readers.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace fuzz;

//===----------------------------------------------------------------------===//
// Sanitizers
//===----------------------------------------------------------------------===//

// LeakSanitizer's function, which is there when it is linked.
extern "C" __attribute__((weak)) int __lsan_do_recoverable_leak_check();

/// Sanitizers read their options before `main`, so that the program starts
/// itself again with them. Names of functions are looked up for new finds only;
/// each worker looks for leaks by itself.
static void restartWithOptions(char **argv) {
  static constexpr char options[] =
      "symbolize=0:handle_abort=1:use_sigaltstack=1:malloc_context_size=5:"
      "quarantine_size_mb=64:max_allocation_size_mb=4096:leak_check_at_exit=0";
  if (!__lsan_do_recoverable_leak_check || getenv("FP8MOE_FUZZ_RESTARTED"))
    return;
  const char *given = getenv("ASAN_OPTIONS");
  std::string all =
      std::string(options) + (given ? ":" : "") + (given ? given : "");
  setenv("ASAN_OPTIONS", all.c_str(), 1);
  setenv("UBSAN_OPTIONS", "symbolize=0:print_stacktrace=1", 1);
  setenv("FP8MOE_FUZZ_RESTARTED", "1", 1);
  execv("/proc/self/exe", argv);
  llvm::report_fatal_error("cannot start again with options of sanitizers");
}

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

/// LLVM's default is exit(1) without a stack for some errors.
static void handleFatalError(void *, const char *reason, bool) {
  llvm::errs() << "LLVM ERROR: " << reason << "\n";
  abort();
}

/// Prints the stack like a sanitizer does.
static void printStack(void *) {
  // The program itself has the name that it was started by, which need not be
  // a path.
  static const std::string self =
      llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  void *addresses[64];
  int count = backtrace(addresses, std::size(addresses));
  for (int i = 0; i < count; ++i) {
    Dl_info info = {};
    if (!dladdr(addresses[i], &info) || !info.dli_fname)
      continue;
    // A return address belongs to the call before it.
    auto offset = static_cast<char *>(addresses[i]) -
                  static_cast<char *>(info.dli_fbase) - 1;
    llvm::StringRef file = info.dli_fname;
    llvm::errs() << "#" << i << " " << addresses[i] << " ("
                 << (file.contains(".so") ? file : self) << "+0x"
                 << llvm::Twine::utohexstr(offset) << ")\n";
  }
}

void fuzz::installHandlers(char **argv) {
  restartWithOptions(argv);
  llvm::install_fatal_error_handler(handleFatalError);
  // Sanitizers have handlers of their own. Names are looked up later.
  if (!__lsan_do_recoverable_leak_check) {
    llvm::sys::AddSignalHandler(printStack, nullptr);
  }
}

Slot &fuzz::makeSlot() {
  void *memory = mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    llvm::report_fatal_error("cannot map shared memory");
  return *new (memory) Slot;
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

static std::string prepareScratch(const Plan &plan, unsigned number) {
  std::string folder = plan.scratch + "/" + std::to_string(number);
  (void)llvm::sys::fs::create_directory(folder);
  // The compiler's files for the linker go there, too.
  setenv("TMPDIR", folder.c_str(), 1);
  return folder;
}

static void beginInput(uint64_t index, Slot &slot) {
  slot.beganCpu = readCpuTime();
  slot.beganClock = readClock();
  slot.input = index;
}

static void readOne(const Plan &plan, const Input &input, Session &session,
                    Slot &slot) {
  Counters &counters = slot.counters[static_cast<size_t>(input.kind)];
  ++counters.inputs;
  if (!plan.deadlyText.empty() &&
      llvm::StringRef(input.bytes).contains(plan.deadlyText))
    abort();
  Outcome outcome = readInput(input, session);
  counters.accepted += outcome.accepted;
  counters.lowered += outcome.lowered;
  counters.refused += !outcome.accepted;
  counters.time += readCpuTime() - slot.beganCpu;
}

std::unique_ptr<Child> fuzz::startWorker(const Plan &plan, uint64_t begin,
                                         uint64_t end, unsigned number,
                                         Slot &slot) {
  auto body = [&] {
    {
      Session session(plan.corpus, prepareScratch(plan, number), slot);
      for (uint64_t index = begin; index < end; ++index) {
        beginInput(index, slot);
        readOne(plan, makeInput(plan.corpus, plan.kinds, plan.seed, index),
                session, slot);
      }
    }
    slot.input = Slot::kNone;
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
      _exit(1);
  };
  return std::make_unique<Child>(
      slot, plan.scratch + "/log" + std::to_string(number), body);
}

std::unique_ptr<Child> fuzz::startReader(const Plan &plan, const Input &input,
                                         unsigned number, Slot &slot) {
  auto body = [&] {
    {
      Session session(plan.corpus, prepareScratch(plan, number), slot);
      beginInput(0, slot);
      readOne(plan, input, session, slot);
    }
    slot.input = Slot::kNone;
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
      _exit(1);
  };
  return std::make_unique<Child>(
      slot, plan.scratch + "/log" + std::to_string(number), body);
}
