//===- Json.h - Strict JSON parsing -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_SUPPORT_JSON_H
#define FP8MOE_SUPPORT_JSON_H

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace fp8moe::support {

/// A JSON value whose objects keep their keys in the order of the text.
using Json = nlohmann::ordered_json;

/// Parses `text`, which must be one JSON value. Rejects objects with duplicate
/// keys, as the meaning would be ambiguous. Rejects values nested more than 64
/// deep, as recursion could exhaust the stack. On failure `error` gives reason
/// and position.
std::optional<Json> parseJson(std::string_view text, std::string &error);

/// Returns `value` as compact JSON for messages, truncated to 60 characters.
std::string quoteJson(const Json &value);

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_JSON_H
