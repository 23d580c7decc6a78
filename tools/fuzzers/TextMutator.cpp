//===- TextMutator.cpp - Changes to IR and pipelines ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mutators.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using llvm::ArrayRef, llvm::StringRef;

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

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
    return make(TokenKind::Other, measureString(text));
  if (llvm::isDigit(c))
    return make(TokenKind::Number, measureNumber(text));
  // In `?x2048xbf16` the letter parts sizes.
  if (c == 'x' && previous &&
      (previous->kind == TokenKind::Number || previous->text == "?"))
    return make(TokenKind::Other, 1);
  if (llvm::isAlpha(c) || c == '_')
    return make(TokenKind::Word, measureWord(text));
  static constexpr StringRef sigils = "%@#!^";
  static constexpr TokenKind kinds[] = {TokenKind::Value, TokenKind::Symbol,
                                        TokenKind::Attribute, TokenKind::Other,
                                        TokenKind::Other};
  size_t size = text.drop_front().take_while(isWordCharacter).size();
  if (size_t sigil = sigils.find(c); sigil != StringRef::npos && size)
    return make(kinds[sigil], 1 + size);
  return make(TokenKind::Other, text.starts_with("->") ? 2 : 1);
}

Tokens fuzz::tokenize(StringRef text) {
  Tokens tokens;
  while (!text.empty()) {
    tokens.push_back(lexOne(text, tokens.empty() ? nullptr : &tokens.back()));
    text = text.drop_front(tokens.back().text.size());
  }
  return tokens;
}

std::string fuzz::join(ArrayRef<Token> tokens) {
  std::string text;
  for (const Token &token : tokens)
    text += token.text;
  return text;
}

ArrayRef<Token> fuzz::getGroup(ArrayRef<Token> tokens, size_t begin) {
  auto isOneOf = [&](size_t i, StringRef brackets) {
    return tokens[i].text.size() == 1 && brackets.contains(tokens[i].text[0]);
  };
  size_t i = begin;
  if (!isOneOf(i, "<[({") && (++i == tokens.size() || tokens[i].text != "<"))
    return tokens.slice(begin, 1);
  for (size_t depth = 0; i < tokens.size(); ++i) {
    if (isOneOf(i, "<[({"))
      ++depth;
    else if (isOneOf(i, ">])}") && --depth == 0)
      return tokens.slice(begin, i + 1 - begin);
  }
  return tokens.slice(begin, 1);
}

/// One of the words of `list`.
static StringRef drawWord(StringRef list, Random &random) {
  llvm::SmallVector<StringRef, 32> words;
  list.split(words, ' ');
  return random.pick(words);
}

/// A number at or beyond an edge of sizes, indices, integers or floats.
static StringRef drawBoundary(Random &random) {
  return drawWord("0 1 -1 2 127 128 255 256 65535 65536 2147483647 2147483648 "
                  "4294967295 4294967296 1099511627776 4611686018427387903 "
                  "4611686018427387904 9223372036854775807 9223372036854775808 "
                  "-2147483648 -9223372036854775808 18446744073709551615 "
                  "18446744073709551616 100000000000000000000000 1.0e+400 -0.0",
                  random);
}

static std::string makeNumber(StringRef old, Random &random) {
  int64_t number;
  if (random.oneIn(3) || old.getAsInteger(10, number))
    return drawBoundary(random).str();
  // Wrapping around is fine here.
  uint64_t n = number;
  const int64_t choices[] = {static_cast<int64_t>(n + 1),
                             static_cast<int64_t>(n - 1),
                             static_cast<int64_t>(n * 2),
                             number / 2,
                             static_cast<int64_t>(random.below(10)),
                             int64_t(1) << random.below(20)};
  return std::to_string(random.pick(choices));
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Whether the token begins a type with parameters: `tensor<`, `memref<`.
static bool isShapedType(ArrayRef<Token> tokens, size_t i) {
  static constexpr StringRef names[] = {"tensor", "memref", "vector"};
  return i + 1 < tokens.size() && tokens[i + 1].text == "<" &&
         llvm::is_contained(names, tokens[i].text);
}

/// Whether the token is a size of a shape.
static bool isSize(ArrayRef<Token> tokens, size_t i) {
  return i + 1 < tokens.size() && tokens[i + 1].text == "x" &&
         (tokens[i].kind == TokenKind::Number || tokens[i].text == "?");
}

static auto isOfKind(TokenKind kind) {
  return [kind](ArrayRef<Token> tokens, size_t i) {
    return tokens[i].kind == kind;
  };
}

using Matcher = llvm::function_ref<bool(ArrayRef<Token>, size_t)>;

/// A place that `matches` accepts, if there is one.
static std::optional<size_t> drawPlace(ArrayRef<Token> tokens, Random &random,
                                       Matcher matches) {
  std::vector<size_t> places;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (matches(tokens, i))
      places.push_back(i);
  if (places.empty())
    return std::nullopt;
  return random.pick(places);
}

/// Puts `text` in place of the group at `place`, and half of the time in place
/// of every equal group.
static void replaceGroup(Tokens &tokens, size_t place, StringRef text,
                         Random &random) {
  std::string old = join(getGroup(tokens, place));
  Tokens replacement = tokenize(text), result;
  bool everywhere = random.oneIn(2);
  for (size_t i = 0; i < tokens.size();) {
    bool isCandidate =
        i == place || (everywhere && tokens[i].text == tokens[place].text);
    if (isCandidate && join(getGroup(tokens, i)) == old) {
      llvm::append_range(result, replacement);
      i += getGroup(tokens, i).size();
    } else {
      result.push_back(tokens[i++]);
    }
  }
  tokens = std::move(result);
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

// Each makes one change, or none when there is nothing to change.

static void changeNumber(Tokens &tokens, Random &random) {
  if (auto place = drawPlace(tokens, random, isOfKind(TokenKind::Number)))
    replaceGroup(tokens, *place, makeNumber(tokens[*place].text, random),
                 random);
}

/// Sizes of shapes become others, unknown or known. All equal ones stand for
/// the same size, so that types stay consistent.
static void changeSize(Tokens &tokens, Random &random) {
  // Sizes that programs have are refused less often than those at boundaries.
  static constexpr StringRef sizes =
      "? 1 2 3 4 8 16 17 32 64 96 100 128 256 384 512 1024";
  auto place = drawPlace(tokens, random, isSize);
  if (!place)
    return;
  std::string old = tokens[*place].text;
  std::string text =
      random.oneIn(3) ? makeNumber(old, random) : drawWord(sizes, random).str();
  bool everywhere = !random.oneIn(6);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (i == *place ||
        (everywhere && tokens[i].text == old && isSize(tokens, i)))
      tokens[i].text = text;
}

/// Replaces a piece by one of the same kind from `other`, which may be `tokens`
/// itself.
static void exchange(Tokens &tokens, const Tokens &other, Random &random) {
  static constexpr TokenKind kinds[] = {
      TokenKind::Value, TokenKind::Attribute, TokenKind::Attribute,
      TokenKind::Word,  TokenKind::Word,      TokenKind::Symbol};
  std::optional<size_t> to, from;
  auto draw = [&](Matcher matches) {
    to = drawPlace(tokens, random, matches);
    from = drawPlace(other, random, matches);
  };
  if (random.oneIn(3))
    draw(isShapedType);
  else
    draw(isOfKind(random.pick(kinds)));
  if (to && from)
    replaceGroup(tokens, *to, join(getGroup(other, *from)), random);
}

static void changeWithin(Tokens &tokens, Random &random) {
  exchange(tokens, Tokens(tokens), random);
}

/// Removes a group or some tokens, puts them elsewhere, or both.
static void moveTokens(Tokens &tokens, Random &random) {
  size_t begin = random.below(tokens.size());
  Tokens piece =
      random.oneIn(2)
          ? getGroup(tokens, begin)
          : ArrayRef(tokens).drop_front(begin).take_front(1 + random.below(4));
  if (!random.oneIn(3))
    tokens.erase(tokens.begin() + begin, tokens.begin() + begin + piece.size());
  if (!random.oneIn(3))
    tokens.insert(tokens.begin() + random.below(tokens.size() + 1),
                  piece.begin(), piece.end());
}

static auto splitLines(const Tokens &tokens) {
  std::string text = join(tokens);
  return llvm::to_vector_of<std::string>(llvm::split(text, '\n'));
}

static void changeLines(Tokens &tokens, Random &random) {
  auto lines = splitLines(tokens);
  size_t from = random.below(lines.size()), to = random.below(lines.size());
  if (random.oneIn(3))
    lines.erase(lines.begin() + from);
  else if (random.oneIn(2))
    lines.insert(lines.begin() + to, std::string(lines[from]));
  else
    std::swap(lines[from], lines[to]);
  tokens = tokenize(llvm::join(lines, "\n"));
}

std::string fuzz::mutateText(StringRef text, Random &random) {
  struct Change {
    void (*apply)(Tokens &, Random &);
    unsigned weight;
  };
  static constexpr Change changes[] = {{changeNumber, 8},
                                       {changeSize, 40},
                                       {changeWithin, 28},
                                       {moveTokens, 4},
                                       {changeLines, 6}};
  unsigned total = 0;
  for (const Change &change : changes)
    total += change.weight;
  Tokens tokens = tokenize(text);
  // One or two changes often pass the verifier.
  do {
    if (tokens.empty())
      break;
    size_t draw = random.below(total);
    const Change *change = changes;
    for (; draw >= change->weight; ++change)
      draw -= change->weight;
    change->apply(tokens, random);
  } while (random.oneIn(4));
  return join(tokens);
}

//===----------------------------------------------------------------------===//
// Pieces of another input
//===----------------------------------------------------------------------===//

/// The text of the token before `i` that is no space. Names and numbers all
/// follow the same things, and differ between inputs.
static StringRef getContext(ArrayRef<Token> tokens, size_t i) {
  while (i-- > 0) {
    if (tokens[i].kind == TokenKind::Space)
      continue;
    if (tokens[i].kind == TokenKind::Number)
      return "0";
    bool isName = tokens[i].kind == TokenKind::Value ||
                  tokens[i].kind == TokenKind::Symbol;
    return isName ? StringRef(tokens[i].text).take_front(1)
                  : StringRef(tokens[i].text);
  }
  return "";
}

std::string fuzz::crossOverText(StringRef text, StringRef other,
                                Random &random) {
  Tokens tokens = tokenize(text), others = tokenize(other);
  if (random.oneIn(8)) {
    auto lines = splitLines(tokens);
    lines.insert(lines.begin() + random.below(lines.size() + 1),
                 random.pick(splitLines(others)));
    return llvm::join(lines, "\n");
  }
  if (random.oneIn(2)) {
    exchange(tokens, others, random);
    return join(tokens);
  }
  auto isText = [](ArrayRef<Token> tokens, size_t i) {
    return tokens[i].kind != TokenKind::Space;
  };
  auto to = drawPlace(tokens, random, isText);
  if (!to)
    return other.str();
  StringRef context = getContext(tokens, *to);
  auto isAlike = [&](ArrayRef<Token> others, size_t i) {
    return isText(others, i) && getContext(others, i) == context;
  };
  if (auto from = drawPlace(others, random, isAlike))
    replaceGroup(tokens, *to, join(getGroup(others, *from)), random);
  return join(tokens);
}
