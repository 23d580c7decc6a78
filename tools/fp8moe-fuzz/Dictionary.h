//===- Dictionary.h - Pieces of text that the seeds are made of  -*- C++
//-*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_DICTIONARY_H
#define FP8MOE_TOOLS_FUZZ_DICTIONARY_H

#include "Tokens.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace fuzz {

/// The pieces that mutations put in place of other pieces.
class Dictionary {
public:
  /// Learns the pieces of one seed.
  void add(const Tokens &tokens);

  /// The tokens that may stand instead of token `i` of `tokens`: those that
  /// seeds have behind an equal token. Has that token itself at least, if it
  /// was learnt.
  const std::vector<std::string> &getFollowers(const Tokens &tokens,
                                               size_t i) const;

  const std::vector<std::string> &getTypes() const { return types.items; }
  const std::vector<std::string> &getAttributes() const {
    return attributes.items;
  }
  const std::vector<std::string> &getWords() const { return words.items; }
  const std::vector<std::string> &getLines() const { return lines.items; }

private:
  /// Different texts in the order in which they came.
  struct Texts {
    std::vector<std::string> items;
    std::set<std::string> known;
    void add(const std::string &text) {
      if (known.insert(text).second)
        items.push_back(text);
    }
  };

  Texts types, attributes, words, lines;
  std::map<std::string, Texts> followers;
};

/// Whether the token begins a type with parameters: `tensor<`, `memref<`.
bool isShapedType(const Tokens &tokens, size_t i);

/// Whether the word is a type of numbers: `bf16`, `i32`, `index`.
bool isElementType(const Token &token);

/// The token before or behind `i` that is no space; `tokens.size()` if none.
size_t getPrevious(const Tokens &tokens, size_t i);
size_t getNext(const Tokens &tokens, size_t i);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_DICTIONARY_H
