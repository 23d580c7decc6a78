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
  void allowKeys(std::initializer_list<std::string_view> keys) const;

  JsonReader operator[](const char *key) const;

  /// This is a template because a literal 0 would also convert to a null `key`.
  template <typename Index,
            typename = std::enable_if_t<std::is_integral_v<Index>>>
  JsonReader operator[](Index index) const {
    return {value.at(size_t(index)), path + "[" + std::to_string(index) + "]"};
  }

  /// Checks that this is an array and returns its length.
  size_t size() const;

  std::string asString() const;

  /// Returns a string, which must not be empty.
  std::string asName() const;

  bool asBool() const;

  /// Returns an integer in [min, max].
  int64_t asInteger(int64_t min = INT64_MIN, int64_t max = INT64_MAX) const;

  /// Returns an integer in [0, count). `what` names the indexed list in
  /// messages.
  size_t asIndex(size_t count, const char *what) const;

private:
  const support::Json &value;
  std::string path;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_JSONREADER_H
