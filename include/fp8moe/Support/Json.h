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

/// Keeps the keys of objects in the order of the text.
using Json = nlohmann::ordered_json;

/// Parses one JSON value that makes up the whole of `text`. Unlike most
/// parsers, refuses an object that has a key twice: which of the two counts
/// would be anyone's guess; and values that are nested more than 64 deep, as
/// working on them could exhaust the stack. On failure `error` says what and
/// where.
std::optional<Json> parseJson(std::string_view text, std::string &error);

/// `value` as compact JSON text, for messages: at most 60 characters.
std::string quoteJson(const Json &value);

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_JSON_H
