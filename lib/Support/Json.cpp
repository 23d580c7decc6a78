//===- Json.cpp - Strict JSON parsing -------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Support/Json.h"

#include <set>
#include <stdexcept>
#include <vector>

using namespace fp8moe::support;

/// Removes the "[json.exception.parse_error.101] " in front of a message.
static std::string withoutTag(std::string message) {
  size_t end = message.find("] ");
  if (!message.empty() && message[0] == '[' && end != std::string::npos)
    message.erase(0, end + 2);
  return message;
}

/// Arrays and objects inside each other: some ten are the most that a manifest
/// has. What works on parsed values recurses.
static constexpr int kMaxDepth = 64;

std::optional<Json> fp8moe::support::parseJson(std::string_view text,
                                               std::string &error) {
  // The keys seen so far in every object that is open.
  std::vector<std::set<std::string>> open;
  auto check = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth > kMaxDepth)
      throw std::runtime_error("arrays and objects are nested more than " +
                               std::to_string(kMaxDepth) + " deep");
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      open.pop_back();
    else if (event == Json::parse_event_t::key &&
             !open.back().insert(parsed.get<std::string>()).second)
      throw std::runtime_error("the key " + quoteJson(parsed) +
                               " appears twice in one object");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const std::exception &exception) {
    error = withoutTag(exception.what());
    return std::nullopt;
  }
}

std::string fp8moe::support::quoteJson(const Json &value) {
  constexpr size_t limit = 60;
  std::string text = value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true,
                                Json::error_handler_t::replace);
  if (text.size() > limit)
    text = text.substr(0, limit - 3) + "...";
  return text;
}
