//===- TextMutator.cpp - Changes to IR and pipelines ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextMutator.h"

#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Numbers and bytes
//===----------------------------------------------------------------------===//

std::string fuzz::makeBoundaryNumber(Random &random) {
  static constexpr StringRef numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "127",
                                          "128",
                                          "255",
                                          "256",
                                          "65535",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "1099511627776",
                                          "4611686018427387903",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "-2147483648",
                                          "-9223372036854775808",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "100000000000000000000000",
                                          "1.0e+400",
                                          "-0.0"};
  return random.pick(numbers).str();
}

void fuzz::mutateBytes(std::string &bytes, Random &random) {
  size_t place = random.below(bytes.size() + 1);
  size_t length = 1 + random.below(random.oneIn(4) ? 64 : 4);
  switch (random.below(6)) {
  case 0:
    bytes.insert(place, length, static_cast<char>(random.below(256)));
    return;
  case 1:
    bytes.erase(place, length);
    return;
  case 2:
    bytes.insert(place, bytes.substr(random.below(bytes.size() + 1), length));
    return;
  case 3:
    bytes.resize(place);
    return;
  default:
    for (size_t i = place; i < std::min(place + length, bytes.size()); ++i)
      bytes[i] = random.oneIn(2) ? static_cast<char>(random.below(256))
                                 : bytes[i] ^ (1 << random.below(8));
    return;
  }
}

std::string TextMutator::makeNumber(StringRef old) {
  int64_t number;
  if (random.oneIn(3) || old.getAsInteger(10, number))
    return makeBoundaryNumber(random);
  // Wrapping is as good as anything here.
  uint64_t n = number;
  switch (random.below(6)) {
  case 0:
    return std::to_string(static_cast<int64_t>(n + 1));
  case 1:
    return std::to_string(static_cast<int64_t>(n - 1));
  case 2:
    return std::to_string(static_cast<int64_t>(n * 2));
  case 3:
    return std::to_string(number / 2);
  case 4:
    return std::to_string(random.below(10));
  default:
    return std::to_string(int64_t(1) << random.below(20));
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

template <typename Predicate>
std::vector<size_t> TextMutator::find(const Tokens &tokens, Predicate matches) {
  std::vector<size_t> places;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (matches(i))
      places.push_back(i);
  return places;
}

void TextMutator::replaceGroup(Tokens &tokens, size_t place,
                               const std::string &text) {
  size_t end = getGroupEnd(tokens, place);
  std::string old = join(tokens, place, end);
  Tokens replacement = tokenize(text);
  bool everywhere = random.oneIn(2);
  Tokens result;
  for (size_t i = 0; i < tokens.size();) {
    size_t groupEnd = i;
    if (i == place || (everywhere && tokens[i].kind == tokens[place].kind &&
                       tokens[i].text == tokens[place].text))
      groupEnd = getGroupEnd(tokens, i);
    if (groupEnd > i && join(tokens, i, groupEnd) == old) {
      result.insert(result.end(), replacement.begin(), replacement.end());
      i = groupEnd;
    } else {
      result.push_back(tokens[i++]);
    }
  }
  tokens = std::move(result);
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

void TextMutator::changeNumber(Tokens &tokens) {
  auto places = find(
      tokens, [&](size_t i) { return tokens[i].kind == TokenKind::Number; });
  if (places.empty())
    return;
  size_t place = random.pick(places);
  replaceGroup(tokens, place, makeNumber(tokens[place].text));
}

/// Sizes of shapes become others, unknown or known.
void TextMutator::changeSize(Tokens &tokens) {
  auto places = find(tokens, [&](size_t i) {
    return i + 1 < tokens.size() && tokens[i + 1].text == "x" &&
           (tokens[i].kind == TokenKind::Number || tokens[i].text == "?");
  });
  if (places.empty())
    return;
  // Sizes that programs have are refused less often than those at boundaries.
  static constexpr StringRef sizes[] = {
      "?",  "1",  "2",   "3",   "4",   "8",   "16",  "17",  "32",
      "64", "96", "100", "128", "256", "384", "512", "1024"};
  size_t place = random.pick(places);
  std::string text = random.oneIn(3) ? makeNumber(tokens[place].text)
                                     : random.pick(sizes).str();
  // All equal numbers stand for the same size, so that types stay consistent.
  std::string old = tokens[place].text;
  bool everywhere = !random.oneIn(6);
  for (size_t i : places)
    if (i == place || (everywhere && tokens[i].text == old))
      tokens[i].text = text;
}

void TextMutator::changeElementType(Tokens &tokens) {
  static constexpr StringRef types[] = {
      "bf16",         "f16",          "f32",        "f64",        "f8E4M3FN",
      "f8E5M2",       "f8E8M0FNU",    "i1",         "i8",         "i32",
      "i64",          "index",        "f8E4M3FNUZ", "f8E5M2FNUZ", "f4E2M1FN",
      "!fp8moe.e4m3", "!fp8moe.e5m2", "i3",         "ui8",        "si32"};
  auto places = find(tokens, [&](size_t i) {
    return isElementType(tokens[i]) || tokens[i].kind == TokenKind::Type;
  });
  if (!places.empty())
    replaceGroup(tokens, random.pick(places), random.pick(types).str());
}

void TextMutator::changeType(Tokens &tokens) {
  auto places = find(tokens, [&](size_t i) { return isShapedType(tokens, i); });
  if (places.empty())
    return;
  size_t place = random.pick(places), other = random.pick(places);
  replaceGroup(tokens, place,
               random.oneIn(2) || dictionary.getTypes().empty()
                   ? join(tokens, other, getGroupEnd(tokens, other))
                   : random.pick(dictionary.getTypes()));
}

/// Gives a tensor another layout, or none.
void TextMutator::changeEncoding(Tokens &tokens) {
  auto places = find(tokens, [&](size_t i) { return isShapedType(tokens, i); });
  if (places.empty() || dictionary.getAttributes().empty())
    return;
  size_t place = random.pick(places), end = getGroupEnd(tokens, place);
  size_t comma = place;
  while (comma < end && tokens[comma].text != ",")
    ++comma;
  std::string text = join(tokens, place, std::min(comma, end - 1));
  if (!random.oneIn(4))
    text += ", " + random.pick(dictionary.getAttributes());
  replaceGroup(tokens, place, text + ">");
}

void TextMutator::changeAttribute(Tokens &tokens) {
  auto places = find(
      tokens, [&](size_t i) { return tokens[i].kind == TokenKind::Attribute; });
  if (!places.empty() && !dictionary.getAttributes().empty())
    replaceGroup(tokens, random.pick(places),
                 random.pick(dictionary.getAttributes()));
}

void TextMutator::changeValue(Tokens &tokens) {
  static constexpr TokenKind kinds[] = {TokenKind::Value, TokenKind::Value,
                                        TokenKind::Symbol, TokenKind::Block};
  TokenKind kind = random.pick(kinds);
  auto places = find(tokens, [&](size_t i) { return tokens[i].kind == kind; });
  if (!places.empty())
    tokens[random.pick(places)].text = tokens[random.pick(places)].text;
}

void TextMutator::changeWord(Tokens &tokens) {
  auto places =
      find(tokens, [&](size_t i) { return tokens[i].kind == TokenKind::Word; });
  if (!places.empty() && !dictionary.getWords().empty())
    tokens[random.pick(places)].text = random.pick(dictionary.getWords());
}

/// Puts what another seed has at such a place: another rounding behind
/// `rounding`, another operation behind `=`.
void TextMutator::changeByContext(Tokens &tokens) {
  auto places = find(
      tokens, [&](size_t i) { return tokens[i].kind != TokenKind::Space; });
  if (places.empty())
    return;
  size_t place = random.pick(places);
  const auto &followers = dictionary.getFollowers(tokens, place);
  if (!followers.empty())
    replaceGroup(tokens, place, random.pick(followers));
}

/// Exchanges, repeats or removes elements of a list such as `[1, 0]`.
void TextMutator::changeList(Tokens &tokens) {
  auto places = find(tokens, [&](size_t i) {
    return tokens[i].text == "[" || tokens[i].text == "(";
  });
  if (places.empty())
    return;
  size_t begin = random.pick(places), end = getGroupEnd(tokens, begin);
  if (end < begin + 2)
    return;
  std::vector<std::string> elements(1);
  for (size_t i = begin + 1; i + 1 < end;) {
    size_t next = getGroupEnd(tokens, i);
    if (tokens[i].text == ",")
      elements.emplace_back();
    else
      elements.back() += join(tokens, i, next);
    i = next;
  }
  size_t a = random.below(elements.size()), b = random.below(elements.size());
  switch (random.below(4)) {
  case 0:
    elements.erase(elements.begin() + a);
    break;
  case 1:
    elements.insert(elements.begin() + a, std::string(elements[b]));
    break;
  default:
    std::swap(elements[a], elements[b]);
    break;
  }
  std::string open = tokens[begin].text, close = tokens[end - 1].text;
  replaceGroup(tokens, begin, open + llvm::join(elements, ",") + close);
}

void TextMutator::moveTokens(Tokens &tokens) {
  size_t begin = random.below(tokens.size());
  size_t end = random.oneIn(2)
                   ? getGroupEnd(tokens, begin)
                   : std::min(tokens.size(), begin + 1 + random.below(4));
  Tokens piece(tokens.begin() + begin, tokens.begin() + end);
  if (!random.oneIn(3))
    tokens.erase(tokens.begin() + begin, tokens.begin() + end);
  if (!random.oneIn(3))
    tokens.insert(tokens.begin() + random.below(tokens.size() + 1),
                  piece.begin(), piece.end());
}

void TextMutator::changeLines(Tokens &tokens) {
  std::string text = join(tokens);
  std::vector<std::string> lines;
  for (StringRef line : llvm::split(text, '\n'))
    lines.push_back(line.str());
  size_t from = random.below(lines.size()), to = random.below(lines.size());
  switch (random.below(5)) {
  case 0:
    lines.erase(lines.begin() + from);
    break;
  case 1:
    lines.insert(lines.begin() + to, std::string(lines[from]));
    break;
  case 2:
    if (!dictionary.getLines().empty())
      lines.insert(lines.begin() + to, random.pick(dictionary.getLines()));
    break;
  default:
    std::swap(lines[from], lines[to]);
    break;
  }
  tokens = tokenize(llvm::join(lines, "\n"));
}

void TextMutator::changeBytes(Tokens &tokens) {
  std::string text = join(tokens);
  mutateBytes(text, random);
  tokens = tokenize(text);
}

std::string TextMutator::mutate(Tokens tokens) {
  struct Change {
    void (TextMutator::*apply)(Tokens &);
    unsigned weight;
  };
  static constexpr Change changes[] = {
      {&TextMutator::changeNumber, 8},      {&TextMutator::changeSize, 40},
      {&TextMutator::changeElementType, 6}, {&TextMutator::changeType, 4},
      {&TextMutator::changeEncoding, 10},   {&TextMutator::changeAttribute, 6},
      {&TextMutator::changeValue, 6},       {&TextMutator::changeWord, 1},
      {&TextMutator::changeByContext, 8},   {&TextMutator::changeList, 5},
      {&TextMutator::moveTokens, 3},        {&TextMutator::changeLines, 6},
      {&TextMutator::changeBytes, 2}};
  unsigned total = 0;
  for (const Change &change : changes)
    total += change.weight;
  // Most inputs have one or two changes: those pass the verifier.
  size_t count = 1;
  while (count < 8 && random.oneIn(4))
    ++count;
  for (; count > 0 && !tokens.empty(); --count) {
    unsigned draw = random.below(total);
    for (const Change &change : changes) {
      if (draw < change.weight) {
        (this->*change.apply)(tokens);
        break;
      }
      draw -= change.weight;
    }
  }
  return join(tokens);
}
