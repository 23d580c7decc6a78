//===- Supervisor.cpp - Workers, finds and figures ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Supervisor.h"

#include "Generator.h"
#include "Readers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace fuzz;
using llvm::StringRef;

/// Time to make one find small.
static constexpr int64_t kMinimizeSeconds = 60, kUpstreamSeconds = 15;

static constexpr int64_t kSecond = 1000000000;

Supervisor::Supervisor(const Plan &plan, const RunOptions &options)
    : plan(plan), options(options), trialSlot(makeSlot()), next(options.first),
      began(readClock()) {
  for (unsigned i = 0; i < options.jobs; ++i)
    jobs.push_back({&makeSlot(), nullptr});
}

void Supervisor::start(Job &job, unsigned number) {
  bool isLate =
      options.seconds && readClock() - began > options.seconds * kSecond;
  if (job.begin == job.end) {
    if (isLate || next >= options.end)
      return;
    job.begin = next;
    next = job.end = next + std::min(kInputsPerRun - next % kInputsPerRun,
                                     options.end - next);
  } else if (isLate) {
    return;
  }
  job.child = startWorker(plan, job.begin, job.end, number, *job.slot);
}

void Supervisor::run() {
  int64_t printed = began;
  while (true) {
    bool isBusy = false;
    for (unsigned i = 0; i < jobs.size(); ++i) {
      Job &job = jobs[i];
      if (job.child)
        if (std::optional<Ending> ending = job.child->poll()) {
          job.child.reset();
          handleEnd(job, *ending);
        }
      // A worker in the middle of its inputs stops when the time is over.
      if (job.child && options.seconds &&
          readClock() - began > (options.seconds + 1) * kSecond)
        job.child.reset();
      else if (!job.child)
        start(job, i);
      isBusy |= job.child != nullptr;
    }
    if (!isBusy)
      break;
    if (readClock() - printed > 10 * kSecond) {
      printProgress();
      printed = readClock();
    }
    usleep(20000);
  }
}

void Supervisor::handleEnd(Job &job, const Ending &ending) {
  if (ending.reason == Ending::Reason::Done) {
    job.begin = job.end;
    return;
  }
  Death death = describeDeath(ending, *job.slot);
  uint64_t index = job.slot->input;
  if (index == Slot::kNone) {
    // All inputs were read; something leaked.
    index = findLeak(job.begin, job.end);
    job.begin = job.end;
  } else {
    job.begin = index + 1;
  }
  addFind(index, std::move(death));
}

uint64_t Supervisor::findLeak(uint64_t begin, uint64_t end) {
  while (end - begin > 1) {
    uint64_t middle = begin + (end - begin) / 2;
    Ending ending =
        startWorker(plan, begin, middle, jobs.size(), trialSlot)->wait();
    if (ending.reason == Ending::Reason::Done)
      begin = middle;
    else
      end = middle;
  }
  return begin;
}

std::string Supervisor::choosePath(const Death &death, Kind kind) const {
  for (size_t number = finds.size();; ++number) {
    std::string path =
        llvm::formatv("{0}/{1}{2}-{3}{4}", options.output,
                      death.isUpstream ? "upstream-" : "", stringifyKind(kind),
                      number, kind == Kind::IR ? ".mlir" : ".input");
    if (!llvm::sys::fs::exists(path) && !llvm::sys::fs::exists(path + ".log"))
      return path;
  }
}

void Supervisor::addFind(uint64_t index, Death death) {
  if (auto known = finds.find(death.name); known != finds.end()) {
    ++known->second.count;
    return;
  }
  Input input = makeInput(plan.corpus, plan.kinds, plan.seed, index);
  std::optional<Death> again = tryInput(plan, input, trialSlot);
  bool isAgain = again && again->name == death.name;
  if (input.kind == Kind::Bytecode && !isAgain) {
    death.name = "memory damaged by the reader of bytecode";
    death.isUpstream = true;
  }
  auto [it, isNew] = finds.try_emplace(death.name);
  if (!isNew) {
    ++it->second.count;
    return;
  }
  if (isAgain) {
    Input small =
        minimize(plan, input, death.name, trialSlot,
                 death.isUpstream ? kUpstreamSeconds : kMinimizeSeconds);
    if (auto last = tryInput(plan, small, trialSlot))
      death.details = last->details;
    input = std::move(small);
  } else {
    death.details +=
        "\nnot seen when the input was read alone; " +
        llvm::formatv("--seed={0} --first={1} --inputs={2} reads "
                      "it behind others\n",
                      plan.seed, index / kInputsPerRun * kInputsPerRun,
                      kInputsPerRun)
            .str();
  }
  std::string path = choosePath(death, input.kind);
  writeFile(path, toFile(input));
  writeFile(path + ".log", death.name + "\n" + death.details);
  llvm::outs() << (death.isUpstream ? "upstream: " : "FIND: ") << death.name
               << "\n  input " << index << " of seed " << plan.seed
               << "; again: fp8moe-fuzz --reproduce=" << path << "\n";
  llvm::outs().flush();
  it->second = {std::move(death), input.kind, index, path};
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

uint64_t Supervisor::count(Kind kind,
                           std::atomic<uint64_t> Counters::*counter) const {
  uint64_t sum = 0;
  for (const Job &job : jobs)
    sum += job.slot->counters[static_cast<size_t>(kind)].*counter;
  return sum;
}

void Supervisor::printProgress() const {
  uint64_t inputs = 0, accepted = 0, lowered = 0;
  for (Kind kind : plan.kinds) {
    inputs += count(kind, &Counters::inputs);
    accepted += count(kind, &Counters::accepted);
    lowered += count(kind, &Counters::lowered);
  }
  double seconds = double(readClock() - began) / kSecond;
  llvm::outs() << llvm::formatv(
      "[{0,6:f0} s] {1} inputs, {2:f0}/s, {3} accepted, {4} lowered, {5} "
      "finds\n",
      seconds, inputs, inputs / seconds, accepted, lowered, finds.size());
  llvm::outs().flush();
}

bool Supervisor::isClean() const {
  return llvm::all_of(
      finds, [](const auto &find) { return find.second.death.isUpstream; });
}

void Supervisor::printSummary(llvm::raw_ostream &os) const {
  os << llvm::formatv("{0,-12}{1,10}{2,10}{3,10}{4,10}{5,12}\n", "kind",
                      "inputs", "refused", "accepted", "lowered", "per second");
  for (Kind kind : plan.kinds) {
    uint64_t inputs = count(kind, &Counters::inputs);
    // Seconds of processor time, so that the rate does not depend on what else
    // runs.
    double seconds =
        std::max(double(count(kind, &Counters::time)) / kSecond, 1e-9);
    os << llvm::formatv("{0,-12}{1,10}{2,10}{3,10}{4,10}{5,12:f0}\n",
                        stringifyKind(kind), inputs,
                        count(kind, &Counters::refused),
                        count(kind, &Counters::accepted),
                        count(kind, &Counters::lowered), inputs / seconds);
  }
  for (const auto &[name, find] : finds)
    os << llvm::formatv("{0}{1} ({2} times): {3}\n",
                        find.death.isUpstream ? "upstream: " : "FIND: ", name,
                        find.count, find.path);
  os << llvm::formatv("seed {0}, {1:f0} seconds\n", plan.seed,
                      double(readClock() - began) / kSecond);
}

/// Text for XML, which knows neither damaged UTF-8 nor control characters.
static std::string toXml(StringRef text) {
  std::string valid = llvm::json::fixUTF8(text);
  for (char &c : valid)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  std::string result;
  llvm::raw_string_ostream os(result);
  llvm::printHTMLEscaped(valid, os);
  return result;
}

void Supervisor::writeJUnit(llvm::raw_ostream &os) const {
  os << "<testsuite name=\"fuzz\" tests=\"" << plan.kinds.size() << "\">\n";
  for (Kind kind : plan.kinds) {
    os << "  <testcase classname=\"fuzz\" name=\"" << stringifyKind(kind)
       << "\">\n";
    for (const auto &[name, find] : finds) {
      if (find.kind != kind || find.death.isUpstream)
        continue;
      os << "    <failure message=\"" << toXml(name) << "\">seed " << plan.seed
         << ", input " << find.index << "; the log is " << toXml(find.path)
         << ".log</failure>\n";
    }
    os << "  </testcase>\n";
  }
  os << "</testsuite>\n";
}
