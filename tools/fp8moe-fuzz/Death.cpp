//===- Death.cpp - Why a child died ---------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Death.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

#include <csignal>
#include <cstring>
#include <map>
#include <sys/wait.h>

using namespace fuzz;
using llvm::StringRef;

namespace {
struct Frame {
  std::string module, offset;
  /// "function at file:line", when a symbolizer is there.
  std::string function;
};
} // namespace

/// Frames beyond these are not looked at; recursion may have many.
static constexpr size_t kMaxFrames = 48;

/// The first stack of a log of a sanitizer or of LLVM's signal handler:
///   #3 0x5581 in f (/path/file+0x1234)
static std::vector<Frame> parseStack(StringRef log) {
  static const llvm::Regex line("^ *#([0-9]+) 0x[0-9a-f]+.*\\(([^()]+)\\+"
                                "(0x[0-9a-f]+)\\)");
  std::vector<Frame> frames;
  for (StringRef text : llvm::split(log, '\n')) {
    llvm::SmallVector<StringRef> groups;
    if (!line.match(text, &groups)) {
      if (!frames.empty() && text.trim().empty())
        break;
      continue;
    }
    if (!frames.empty() && groups[1] == "0")
      break;
    if (frames.size() < kMaxFrames)
      frames.push_back({groups[2].str(), groups[3].str(), ""});
  }
  return frames;
}

/// What llvm-symbolizer says about addresses of one file.
static std::vector<std::string>
symbolize(StringRef module, const std::vector<std::string> &offsets) {
  static const llvm::ErrorOr<std::string> tool = [] {
    auto found = llvm::sys::findProgramByName("llvm-symbolizer",
                                              {FP8MOE_LLVM_TOOLS_DIR});
    return found ? found : llvm::sys::findProgramByName("llvm-symbolizer");
  }();
  std::vector<std::string> names;
  llvm::SmallString<64> output;
  if (!tool || llvm::sys::fs::createTemporaryFile("symbols", "txt", output))
    return names;
  std::string object = "--obj=" + module.str();
  std::vector<StringRef> arguments = {*tool, object, "--pretty-print",
                                      "--no-inlines", "--demangle"};
  arguments.insert(arguments.end(), offsets.begin(), offsets.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(output),
                                          StringRef()};
  if (llvm::sys::ExecuteAndWait(*tool, arguments, std::nullopt, redirects) == 0)
    if (auto buffer = llvm::MemoryBuffer::getFile(output))
      for (StringRef line : llvm::split((*buffer)->getBuffer(), '\n'))
        if (!line.trim().empty())
          names.push_back(line.trim().str());
  llvm::sys::fs::remove(output);
  return names;
}

static void symbolize(std::vector<Frame> &frames) {
  static std::map<std::pair<std::string, std::string>, std::string> cache;
  std::map<std::string, std::vector<std::string>> unknown;
  for (Frame &frame : frames)
    if (!cache.count({frame.module, frame.offset}))
      unknown[frame.module].push_back(frame.offset);
  for (auto &[module, offsets] : unknown) {
    std::vector<std::string> names = symbolize(module, offsets);
    if (names.size() == offsets.size())
      for (size_t i = 0; i < names.size(); ++i)
        cache[{module, offsets[i]}] = names[i];
  }
  for (Frame &frame : frames)
    frame.function = cache[{frame.module, frame.offset}];
}

static bool isOfTool(const Frame &frame) {
  return StringRef(frame.function).starts_with("fuzz::") ||
         StringRef(frame.function).contains(" fuzz::");
}

static bool isOfProject(const Frame &frame) {
  return StringRef(frame.function).contains("fp8moe") && !isOfTool(frame);
}

/// Those who make the stack, not those who are at fault.
static bool isOfHandler(const Frame &frame) {
  if (frame.function.empty())
    return true;
  for (StringRef name :
       {"printStack", "PrintStackTrace", "SignalHandler", "RunSignalHandlers",
        "raise", "abort", "pthread_kill", "__restore_rt", "reportFatal",
        "report_fatal_error", "handleFatalError", "__asan", "__ubsan",
        "__sanitizer", "__interceptor", "??"})
    if (StringRef(frame.function).starts_with(name) ||
        StringRef(frame.function).split(" at ").first.contains(name))
      return true;
  return false;
}

/// "f(int) at a.cpp:3:4" -> "f".
static std::string shorten(StringRef function) {
  StringRef name = function.split(" at ").first;
  name = name.take_until([](char c) { return c == '('; });
  name.consume_front("mlir::fp8moe::");
  return name.take_front(120).str();
}

/// The text behind `key` on its line, or nothing.
static std::optional<std::string> findLine(StringRef log, StringRef key) {
  size_t place = log.find(key);
  if (place == StringRef::npos)
    return std::nullopt;
  return log.drop_front(place + key.size()).split('\n').first.trim().str();
}

/// Numbers and names in quotes differ between inputs.
static std::string generalize(StringRef text) {
  std::string result;
  bool isQuoted = false;
  for (char c : text.take_front(200)) {
    if (c == '\'' || c == '"')
      isQuoted = !isQuoted;
    else if (!isQuoted && !llvm::isDigit(c))
      result += c;
  }
  return result;
}

static std::string nameCause(const Ending &ending, const Slot &slot) {
  if (ending.reason == Ending::Reason::Hung)
    return "hang in " + std::string(slot.stage);
  if (ending.reason == Ending::Reason::OutOfMemory)
    return "out of memory in " + std::string(slot.stage);
  if (auto message = findLine(ending.log, "LLVM ERROR: "))
    return "fatal error: " + generalize(*message);
  if (auto message = findLine(ending.log, "runtime error: "))
    return "undefined behaviour: " + generalize(*message);
  if (auto message = findLine(ending.log, "ERROR: AddressSanitizer: "))
    return StringRef(*message).split(' ').first.str();
  if (auto message = findLine(ending.log, "ERROR: LeakSanitizer: "))
    return *message;
  if (auto message = findLine(ending.log, "terminate called "))
    return "terminate " + generalize(*message);
  if (WIFSIGNALED(ending.status))
    return std::string("signal ") + strsignal(WTERMSIG(ending.status));
  return "exit with status " + std::to_string(WEXITSTATUS(ending.status));
}

Death fuzz::describeDeath(const Ending &ending, const Slot &slot) {
  Death death;
  std::string where = "input " + std::to_string(slot.input) + ", stage '" +
                      std::string(slot.stage) + "'\n";
  if (slot.find[0]) {
    death.name = slot.find;
    death.details = where + slot.message + "\n" + ending.log;
    return death;
  }
  std::vector<Frame> frames = parseStack(ending.log);
  symbolize(frames);
  death.name = nameCause(ending, slot);
  death.details = where;
  llvm::raw_string_ostream os(death.details);
  bool hasOurs = false, isInside = true;
  std::vector<std::string> ours, others;
  for (auto [number, frame] : llvm::enumerate(frames)) {
    os << llvm::formatv("#{0} {1} ({2}+{3})\n", number, frame.function,
                        frame.module, frame.offset);
    if (isOfTool(frame) ||
        StringRef(frame.function).contains("OpToOpPassAdaptor"))
      isInside = false;
    if (!isInside || isOfHandler(frame))
      continue;
    hasOurs |= isOfProject(frame);
    (isOfProject(frame) ? ours : others).push_back(shorten(frame.function));
  }
  death.isUpstream = !others.empty() && !hasOurs;
  // Where a hang is stopped, and how deep a recursion was, is chance.
  bool isExact = ending.reason == Ending::Reason::Died;
  const std::vector<std::string> &names = ours.empty() ? others : ours;
  for (size_t i = 0; isExact && i < std::min<size_t>(2, names.size()); ++i)
    death.name += (i == 0 ? " in " : " < ") + names[i];
  if (frames.empty())
    death.name += " in stage " + std::string(slot.stage);
  // Damaged bytecode kills upstream's reader in too many places to tell apart.
  if (death.isUpstream && StringRef(slot.stage) == kReadBytecode)
    death.name = "the reader of bytecode dies";
  os << "\n" << ending.log;
  return death;
}
