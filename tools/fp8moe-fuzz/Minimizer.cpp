//===- Minimizer.cpp - Making finds small ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Minimizer.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using llvm::StringRef;

/// The number of the worker that tries inputs; its scratch folder is its own.
static constexpr unsigned kNumber = 1000;

std::optional<Death> fuzz::tryInput(const Plan &plan, const Input &input,
                                    Slot &slot) {
  Ending ending = startReader(plan, input, kNumber, slot)->wait();
  if (ending.reason == Ending::Reason::Done)
    return std::nullopt;
  return describeDeath(ending, slot);
}

using Pieces = std::vector<std::string>;

/// Removes runs of pieces, long ones first, while `isKept` says that what is
/// left is still of interest.
static bool removePieces(Pieces &pieces, std::string &text,
                         llvm::function_ref<bool(const std::string &)> isKept) {
  bool hasChanged = false;
  for (size_t length = std::max<size_t>(pieces.size() / 2, 1); length > 0;
       length /= 2) {
    for (size_t begin = 0; begin < pieces.size();) {
      Pieces rest(pieces.begin(), pieces.begin() + begin);
      rest.insert(rest.end(),
                  pieces.begin() + std::min(begin + length, pieces.size()),
                  pieces.end());
      std::string candidate = llvm::join(rest, "");
      if (isKept(candidate)) {
        pieces = std::move(rest);
        text = std::move(candidate);
        hasChanged = true;
      } else {
        begin += length;
      }
    }
  }
  return hasChanged;
}

static Pieces cutLines(const std::string &text) {
  Pieces pieces;
  for (StringRef rest = text; !rest.empty();) {
    size_t length = std::min(rest.find('\n'), rest.size() - 1) + 1;
    pieces.push_back(rest.take_front(length).str());
    rest = rest.drop_front(length);
  }
  return pieces;
}

static Pieces cutGroups(const std::string &text) {
  Pieces pieces;
  Tokens tokens = tokenize(text);
  for (size_t i = 0; i < tokens.size();) {
    size_t end = getGroupEnd(tokens, i);
    pieces.push_back(join(tokens, i, end));
    i = end;
  }
  return pieces;
}

static Pieces cutTokens(const std::string &text) {
  Pieces pieces;
  for (const Token &token : tokenize(text))
    pieces.push_back(token.text);
  return pieces;
}

static Pieces cutBytes(const std::string &text) {
  Pieces pieces;
  for (char c : text)
    pieces.emplace_back(1, c);
  return pieces;
}

/// Texts that are no longer than this are cut inside of words too: a mutation
/// may have joined two.
static constexpr size_t kFewBytes = 128;

Input fuzz::minimize(const Plan &plan, Input input, const std::string &death,
                     Slot &slot, int64_t seconds) {
  int64_t deadline = readClock() + seconds * 1000000000;
  auto isKept = [&](const std::string &bytes) {
    if (readClock() > deadline || bytes.size() >= input.bytes.size())
      return false;
    Input candidate{input.kind, input.choice, bytes};
    std::optional<Death> found = tryInput(plan, candidate, slot);
    return found && found->name == death;
  };
  bool isText = input.kind == Kind::IR || input.kind == Kind::Pipeline ||
                input.kind == Kind::Manifest;
  auto reduce = [&](Pieces (*cut)(const std::string &)) {
    Pieces pieces = cut(input.bytes);
    return removePieces(pieces, input.bytes, isKept);
  };
  while (isText && readClock() < deadline) {
    bool hasChanged = reduce(cutLines);
    hasChanged |= reduce(cutGroups);
    hasChanged |= reduce(cutTokens);
    if (!hasChanged)
      break;
  }
  if (!isText || input.bytes.size() <= kFewBytes)
    reduce(cutBytes);
  return input;
}
