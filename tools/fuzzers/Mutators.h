//===- Mutators.h - Changes to inputs that keep their structure -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_MUTATORS_H
#define FP8MOE_TOOLS_FUZZERS_MUTATORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <random>
#include <string>
#include <vector>

namespace fuzz {

/// A random number generator. Does not use the distributions of the standard
/// library, as a seed must give the same input on every platform.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// Returns a number from 0 to `bound` - 1.
  size_t below(size_t bound) { return engine() % bound; }

  /// Returns true with probability 1 / `n`.
  bool oneIn(size_t n) { return below(n) == 0; }

  template <typename Container> auto &pick(Container &&container) {
    return container[below(std::size(container))];
  }

private:
  std::mt19937_64 engine;
};

enum class TokenKind {
  Number,
  Word,      // func.func, tensor, bf16
  Value,     // %x
  Symbol,    // @f
  Attribute, // #fp8moe.strided, #alias
  Space,     // and comments
  Other      // !fp8moe.e4m3, ^bb0, "text", punctuation
};

struct Token {
  TokenKind kind;
  std::string text;
};

using Tokens = std::vector<Token>;

/// Splits text, which may be invalid IR, into tokens whose concatenation is the
/// text. The `x` between the sizes of a shape is a token of its own.
Tokens tokenize(llvm::StringRef text);

/// Returns the text of the tokens.
std::string join(llvm::ArrayRef<Token> tokens);

/// Returns the group that begins at `begin`: `tensor<...>`, `#a<...>`, `[...]`.
/// Without a bracket this is one token.
llvm::ArrayRef<Token> getGroup(llvm::ArrayRef<Token> tokens, size_t begin);

/// Makes a few changes to IR or a pipeline. Equal sizes, types and attributes
/// often change together, so that the verifier accepts many results.
std::string mutateText(llvm::StringRef text, Random &random);

/// Replaces a piece of `text` by one of the same kind from `other`, or by one
/// that follows an equal token. Examples: another rounding after `rounding`, an
/// operation after `=`.
std::string crossOverText(llvm::StringRef text, llvm::StringRef other,
                          Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_MUTATORS_H
