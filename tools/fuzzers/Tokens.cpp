//===- Tokens.cpp - Text of MLIR as tokens --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tokens.h"

#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using llvm::StringRef;

static bool isWordCharacter(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
}

/// The length of a word. Names of passes have dashes in them.
static size_t measureWord(StringRef text) {
  size_t end = 0;
  while (end < text.size() && (isWordCharacter(text[end]) ||
                               (text[end] == '-' && end + 1 < text.size() &&
                                llvm::isAlnum(text[end + 1]))))
    ++end;
  return end;
}

/// The length of a quoted string, which ends at its quote or with its line.
static size_t measureString(StringRef text) {
  for (size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return std::min(text.find('\n'), text.size());
}

/// The length of `12`, `1.5` or `1.5e-3`.
static size_t measureNumber(StringRef text) {
  auto skipDigits = [&](size_t from) {
    return std::min(text.find_if_not(llvm::isDigit, from), text.size());
  };
  size_t end = skipDigits(0);
  if (end + 1 < text.size() && text[end] == '.' && llvm::isDigit(text[end + 1]))
    end = skipDigits(end + 1);
  if (!text.drop_front(end).starts_with_insensitive("e"))
    return end;
  size_t exponent = end + 1;
  if (exponent < text.size() && StringRef("+-").contains(text[exponent]))
    ++exponent;
  size_t behind = skipDigits(exponent);
  return behind > exponent ? behind : end;
}

static size_t measureSpace(StringRef text) {
  size_t end = 0;
  while (end < text.size()) {
    if (llvm::isSpace(text[end]))
      ++end;
    else if (text.drop_front(end).starts_with("//"))
      end = std::min(text.find('\n', end), text.size());
    else
      break;
  }
  return end;
}

/// The token at the beginning of `text`. `previous` is the one before it.
static Token lexOne(StringRef text, const Token *previous) {
  auto make = [&](TokenKind kind, size_t size) {
    return Token{kind, text.take_front(size).str()};
  };
  char c = text.front();
  if (size_t size = measureSpace(text))
    return make(TokenKind::Space, size);
  if (c == '"')
    return make(TokenKind::String, measureString(text));
  if (llvm::isDigit(c))
    return make(TokenKind::Number, measureNumber(text));
  // In `?x2048xbf16` the letter parts sizes.
  if (c == 'x' && previous &&
      (previous->kind == TokenKind::Number || previous->text == "?"))
    return make(TokenKind::Punctuation, 1);
  if (llvm::isAlpha(c) || c == '_')
    return make(TokenKind::Word, measureWord(text));
  static constexpr StringRef sigils = "%@#!^";
  static constexpr TokenKind kinds[] = {TokenKind::Value, TokenKind::Symbol,
                                        TokenKind::Attribute, TokenKind::Type,
                                        TokenKind::Block};
  size_t size = text.drop_front().take_while(isWordCharacter).size();
  if (size_t sigil = sigils.find(c); sigil != StringRef::npos && size)
    return make(kinds[sigil], 1 + size);
  return make(TokenKind::Punctuation, text.starts_with("->") ? 2 : 1);
}

Tokens fuzz::tokenize(StringRef text) {
  Tokens tokens;
  while (!text.empty()) {
    tokens.push_back(lexOne(text, tokens.empty() ? nullptr : &tokens.back()));
    text = text.drop_front(tokens.back().text.size());
  }
  return tokens;
}

std::string fuzz::join(const Tokens &tokens, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i)
    text += tokens[i].text;
  return text;
}

std::string fuzz::join(const Tokens &tokens) {
  return join(tokens, 0, tokens.size());
}

size_t fuzz::getGroupEnd(const Tokens &tokens, size_t begin) {
  auto isOneOf = [&](size_t i, StringRef brackets) {
    return tokens[i].text.size() == 1 && brackets.contains(tokens[i].text[0]);
  };
  size_t i = begin;
  if (!isOneOf(i, "<[({") && (++i == tokens.size() || tokens[i].text != "<"))
    return begin + 1;
  for (size_t depth = 0; i < tokens.size(); ++i) {
    if (isOneOf(i, "<[({"))
      ++depth;
    else if (isOneOf(i, ">])}") && --depth == 0)
      return i + 1;
  }
  return begin + 1;
}
