//===- Tokens.h - Text of MLIR as tokens ------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_TOKENS_H
#define FP8MOE_TOOLS_FUZZERS_TOKENS_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace fuzz {

enum class TokenKind {
  Number,
  Word,      // func.func, tensor, bf16
  Value,     // %x
  Symbol,    // @f
  Attribute, // #fp8moe.strided, #alias
  Type,      // !fp8moe.e4m3, !alias
  Block,     // ^bb0
  String,
  Punctuation,
  Space // and comments
};

struct Token {
  TokenKind kind;
  std::string text;
};

using Tokens = std::vector<Token>;

/// Splits text, which may be invalid IR, into tokens whose concatenation is the
/// text. The `x` between the sizes of a shape is a token of its own.
Tokens tokenize(llvm::StringRef text);

/// Returns the text of tokens [begin, end).
std::string join(const Tokens &tokens, size_t begin, size_t end);
std::string join(const Tokens &tokens);

/// Returns the index after the group that begins at `begin`: `tensor<...>`,
/// `#a<...>`, `[...]`. Without a bracket this is the next token.
size_t getGroupEnd(const Tokens &tokens, size_t begin);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_TOKENS_H
