//===- Child.cpp - A process that may die ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Child.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuzz;

static constexpr int64_t kSecond = 1000000000;

/// An input that takes longer is a find. Time of the processor, because the
/// machine may be busy with other things; and a child that waits for something
/// uses none.
static constexpr int64_t kCpuLimit = 10 * kSecond;
static constexpr int64_t kClockLimit = 120 * kSecond;

/// Bytes of memory in use. Limits on addresses are of no use with sanitizers,
/// which reserve most of them.
static constexpr int64_t kMemoryLimit = int64_t(4) << 30;

static int64_t toNanoseconds(const timespec &time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

static int64_t readClock(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return toNanoseconds(time);
}

int64_t fuzz::readClock() { return ::readClock(CLOCK_MONOTONIC); }
int64_t fuzz::readCpuTime() { return ::readClock(CLOCK_PROCESS_CPUTIME_ID); }

static int64_t readMemory(pid_t pid) {
  auto buffer = llvm::MemoryBuffer::getFileAsStream(
      "/proc/" + std::to_string(pid) + "/statm");
  if (!buffer)
    return 0;
  int64_t pages = 0;
  (void)(*buffer)->getBuffer().split(' ').second.split(' ').first.getAsInteger(
      10, pages);
  return pages * sysconf(_SC_PAGESIZE);
}

Child::Child(Slot &slot, std::string path, const std::function<void()> &body)
    : slot(slot), logPath(std::move(path)) {
  slot.input = Slot::kNone;
  slot.find[0] = slot.message[0] = slot.stage[0] = 0;
  pid = fork();
  if (pid < 0)
    llvm::report_fatal_error("cannot fork");
  if (pid > 0)
    return;
  // A signal that kills the supervisor is meant for the workers, too.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int log = open(logPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Dumps of memory with sanitizers are huge.
  rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  body();
  _exit(0);
}

Child::~Child() {
  if (pid <= 0)
    return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void Child::stop(Ending::Reason why) {
  reason = why;
  if (!stoppedAt) {
    stoppedAt = fuzz::readClock();
    kill(pid, SIGABRT);
  } else if (fuzz::readClock() - stoppedAt > 5 * kSecond) {
    kill(pid, SIGKILL);
  }
}

std::optional<Ending> Child::poll() {
  int status = 0;
  pid_t ended = waitpid(pid, &status, WNOHANG);
  if (ended == pid) {
    pid = 0;
    Ending ending{reason, status, ""};
    if (reason == Ending::Reason::Done && status != 0)
      ending.reason = Ending::Reason::Died;
    if (auto buffer = llvm::MemoryBuffer::getFile(logPath))
      ending.log = (*buffer)->getBuffer().str();
    return ending;
  }
  if (stoppedAt) {
    stop(reason);
    return std::nullopt;
  }
  if (readMemory(pid) > kMemoryLimit)
    stop(Ending::Reason::OutOfMemory);
  clockid_t clock;
  if (slot.input != Slot::kNone && clock_getcpuclockid(pid, &clock) == 0 &&
      (::readClock(clock) - slot.beganCpu > kCpuLimit ||
       fuzz::readClock() - slot.beganClock > kClockLimit))
    stop(Ending::Reason::Hung);
  return std::nullopt;
}

Ending Child::wait() {
  while (true) {
    if (std::optional<Ending> ending = poll())
      return std::move(*ending);
    usleep(2000);
  }
}
