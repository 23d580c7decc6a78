//===- TextMutator.h - Changes to IR and pipelines ------------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_TEXTMUTATOR_H
#define FP8MOE_TOOLS_FUZZ_TEXTMUTATOR_H

#include "Dictionary.h"
#include "Random.h"

namespace fuzz {

/// Changes text in ways that often leave it well-formed: sizes, types, layouts,
/// attributes, operands and lines are exchanged, often all equal ones at once,
/// so that what the verifier compares still agrees.
class TextMutator {
public:
  TextMutator(const Dictionary &dictionary, Random &random)
      : dictionary(dictionary), random(random) {}

  /// Makes one to a handful of changes.
  std::string mutate(Tokens tokens);

private:
  // Each makes one change, or none when there is nothing to change.
  void changeNumber(Tokens &tokens);
  void changeSize(Tokens &tokens);
  void changeElementType(Tokens &tokens);
  void changeType(Tokens &tokens);
  void changeEncoding(Tokens &tokens);
  void changeAttribute(Tokens &tokens);
  void changeValue(Tokens &tokens);
  void changeWord(Tokens &tokens);
  void changeByContext(Tokens &tokens);
  void changeList(Tokens &tokens);
  void moveTokens(Tokens &tokens);
  void changeLines(Tokens &tokens);
  void changeBytes(Tokens &tokens);

  /// The places that `matches` accepts.
  template <typename Predicate>
  std::vector<size_t> find(const Tokens &tokens, Predicate matches);

  /// Puts `text` in place of the group at `place`, and half of the time in
  /// place of every equal group.
  void replaceGroup(Tokens &tokens, size_t place, const std::string &text);

  std::string makeNumber(llvm::StringRef old);

  const Dictionary &dictionary;
  Random &random;
};

/// A number at an edge of what sizes, indices and integers can be.
std::string makeBoundaryNumber(Random &random);

/// Changes, inserts, removes or repeats bytes.
void mutateBytes(std::string &bytes, Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_TEXTMUTATOR_H
