//===- JsonReader.h - Typed access to JSON with located errors --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_JSONREADER_H
#define FP8MOE_LIB_RUNTIME_JSONREADER_H

#include "Error.h"
#include "fp8moe/Support/Json.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace fp8moe::runtime {

/// A JSON value of the manifest together with its path, such as
/// "programs[0].buffers[1].dtype". Every accessor throws an Error with that
/// path if the value has another type or range.
class JsonReader {
public:
  JsonReader(const support::Json &value, std::string path)
      : value(value), path(std::move(path)) {}

  [[noreturn]] void expected(const std::string &what) const {
    invalid("expected " + what + ", found " + support::quoteJson(value));
  }

  [[noreturn]] void invalid(const std::string &message) const {
    fail(FP8MOE_INVALID_ARTIFACT,
         "manifest.json: ", path.empty() ? "top level" : path, ": ", message);
  }

  bool isObject() const { return value.is_object(); }
  bool has(const char *key) const { return value.contains(key); }

  /// Checks that this is an object without any other keys.
  void allowKeys(std::initializer_list<std::string_view> keys) const {
    if (!value.is_object())
      expected("an object");
    for (const auto &[key, member] : value.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        invalid("unknown key '" + key + "'");
  }

  JsonReader operator[](const char *key) const {
    if (!value.is_object())
      expected("an object");
    auto found = value.find(key);
    if (found == value.end())
      invalid("the key '" + std::string(key) + "' is missing");
    return {*found, path.empty() ? key : path + "." + key};
  }

  /// This is a template because a literal 0 would also convert to a null `key`.
  template <typename Index,
            typename = std::enable_if_t<std::is_integral_v<Index>>>
  JsonReader operator[](Index index) const {
    return {value.at(size_t(index)), path + "[" + std::to_string(index) + "]"};
  }

  /// Checks that this is an array and returns its length.
  size_t size() const {
    if (!value.is_array())
      expected("an array");
    return value.size();
  }

  std::string asString() const {
    if (!value.is_string())
      expected("a string");
    return value.get<std::string>();
  }

  /// Returns a string, which must not be empty.
  std::string asName() const {
    std::string name = asString();
    // An embedded NUL would cut the name short on its way through the C API.
    if (name.empty() || name.find('\0') != std::string::npos)
      expected("a name");
    return name;
  }

  bool asBool() const {
    if (!value.is_boolean())
      expected("true or false");
    return value.get<bool>();
  }

  /// Returns an integer in [min, max].
  int64_t asInteger(int64_t min = INT64_MIN, int64_t max = INT64_MAX) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      expected("an integer of 64 bits");
    int64_t number = value.get<int64_t>();
    if (number < min || number > max)
      expected("an integer from " + std::to_string(min) + " to " +
               std::to_string(max));
    return number;
  }

  /// Returns an integer in [0, count). `what` names the indexed list in
  /// messages.
  size_t asIndex(size_t count, const char *what) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= count)
      expected("the index of one of " + std::to_string(count) + " " + what);
    return value.get<size_t>();
  }

private:
  const support::Json &value;
  std::string path;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_JSONREADER_H
