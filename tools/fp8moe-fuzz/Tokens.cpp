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

static size_t measureNumber(StringRef text) {
  size_t end = text.find_if_not(llvm::isDigit);
  end = std::min(end, text.size());
  // "1.5e-3", but not the range "1..2".
  if (end + 1 < text.size() && text[end] == '.' && llvm::isDigit(text[end + 1]))
    end += 1 + text.drop_front(end + 1).take_while(llvm::isDigit).size();
  if (end + 1 < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    StringRef exponent = text.drop_front(end + 1);
    size_t sign = exponent[0] == '-' || exponent[0] == '+' ? 1 : 0;
    size_t digits = exponent.drop_front(sign).take_while(llvm::isDigit).size();
    if (digits)
      end += 1 + sign + digits;
  }
  return end;
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

static TokenKind classifySigil(char sigil) {
  switch (sigil) {
  case '%':
    return TokenKind::Value;
  case '@':
    return TokenKind::Symbol;
  case '#':
    return TokenKind::Attribute;
  case '!':
    return TokenKind::Type;
  case '^':
    return TokenKind::Block;
  default:
    return TokenKind::Punctuation;
  }
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
  TokenKind kind = classifySigil(c);
  if (kind != TokenKind::Punctuation) {
    StringRef rest = text.drop_front();
    size_t size = rest.starts_with("\"")
                      ? measureString(rest)
                      : rest.take_while(isWordCharacter).size();
    // An escaped dialect symbol, `#fp8moe<...>`, has its bracket as a group.
    return make(size ? kind : TokenKind::Punctuation, 1 + size);
  }
  if (text.starts_with("->"))
    return make(TokenKind::Punctuation, 2);
  return make(TokenKind::Punctuation, 1);
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
  auto isOpen = [&](size_t i) {
    return tokens[i].text.size() == 1 &&
           StringRef("<[({").contains(tokens[i].text[0]);
  };
  auto isClose = [&](size_t i) {
    return tokens[i].text.size() == 1 &&
           StringRef(">])}").contains(tokens[i].text[0]);
  };
  size_t i = begin;
  if (!isOpen(i) && (i + 1 == tokens.size() || tokens[i + 1].text != "<"))
    return begin + 1;
  if (!isOpen(i))
    ++i;
  for (size_t depth = 0; i < tokens.size(); ++i) {
    if (isOpen(i))
      ++depth;
    else if (isClose(i) && --depth == 0)
      return i + 1;
  }
  return begin + 1;
}
