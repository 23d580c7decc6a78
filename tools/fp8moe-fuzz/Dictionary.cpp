//===- Dictionary.cpp - Pieces of text that the seeds are made of ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dictionary.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace fuzz;
using llvm::StringRef;

size_t fuzz::getPrevious(const Tokens &tokens, size_t i) {
  while (i-- > 0)
    if (tokens[i].kind != TokenKind::Space)
      return i;
  return tokens.size();
}

size_t fuzz::getNext(const Tokens &tokens, size_t i) {
  for (++i; i < tokens.size(); ++i)
    if (tokens[i].kind != TokenKind::Space)
      return i;
  return tokens.size();
}

bool fuzz::isShapedType(const Tokens &tokens, size_t i) {
  return i + 1 < tokens.size() && tokens[i + 1].text == "<" &&
         llvm::StringSwitch<bool>(tokens[i].text)
             .Cases({"tensor", "memref", "vector", "tuple", "complex"}, true)
             .Default(false);
}

bool fuzz::isElementType(const Token &token) {
  if (token.kind != TokenKind::Word)
    return false;
  StringRef word = token.text;
  if (word == "index" || word == "bf16" || word == "tf32")
    return true;
  (void)(word.consume_front("si") || word.consume_front("ui") ||
         word.consume_front("i") || word.consume_front("f"));
  return word.size() < token.text.size() && !word.empty() &&
         llvm::isDigit(word.front());
}

/// Numbers all follow the same things, so that one entry is enough for them.
static std::string getKey(const Tokens &tokens, size_t i) {
  size_t previous = getPrevious(tokens, i);
  if (previous == tokens.size())
    return "";
  const Token &token = tokens[previous];
  switch (token.kind) {
  case TokenKind::Number:
    return "0";
  case TokenKind::Value:
    return "%";
  case TokenKind::Symbol:
    return "@";
  case TokenKind::String:
    return "\"";
  default:
    return token.text;
  }
}

void Dictionary::add(const Tokens &tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token &token = tokens[i];
    if (token.kind == TokenKind::Space)
      continue;
    size_t end = getGroupEnd(tokens, i);
    if (isShapedType(tokens, i) || token.kind == TokenKind::Type)
      types.add(join(tokens, i, end));
    else if (isElementType(token))
      types.add(token.text);
    else if (token.kind == TokenKind::Attribute)
      attributes.add(join(tokens, i, end));
    else if (token.kind == TokenKind::Word)
      words.add(token.text);
    // Names mean something in their own seed only.
    if (token.kind != TokenKind::Value && token.kind != TokenKind::Symbol &&
        token.kind != TokenKind::Block)
      followers[getKey(tokens, i)].add(token.text);
  }
  std::string text = join(tokens);
  for (StringRef line : llvm::split(text, '\n'))
    if (!line.trim().empty())
      lines.add(line.str());
}

const std::vector<std::string> &Dictionary::getFollowers(const Tokens &tokens,
                                                         size_t i) const {
  static const std::vector<std::string> none;
  auto found = followers.find(getKey(tokens, i));
  return found == followers.end() ? none : found->second.items;
}
