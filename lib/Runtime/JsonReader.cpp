//===- JsonReader.cpp - Typed access to JSON with located errors ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"

#include <algorithm>

using namespace fp8moe::runtime;

void JsonReader::allowKeys(std::initializer_list<std::string_view> keys) const {
  if (!value.is_object())
    expected("an object");
  for (const auto &[key, member] : value.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      invalid("unknown key '" + key + "'");
}

JsonReader JsonReader::operator[](const char *key) const {
  if (!value.is_object())
    expected("an object");
  auto found = value.find(key);
  if (found == value.end())
    invalid("the key '" + std::string(key) + "' is missing");
  return {*found, path.empty() ? key : path + "." + key};
}

size_t JsonReader::size() const {
  if (!value.is_array())
    expected("an array");
  return value.size();
}

std::string JsonReader::asString() const {
  if (!value.is_string())
    expected("a string");
  return value.get<std::string>();
}

std::string JsonReader::asName() const {
  std::string name = asString();
  // An embedded NUL would cut the name short on its way through the C API.
  if (name.empty() || name.find('\0') != std::string::npos)
    expected("a name");
  return name;
}

bool JsonReader::asBool() const {
  if (!value.is_boolean())
    expected("true or false");
  return value.get<bool>();
}

int64_t JsonReader::asInteger(int64_t min, int64_t max) const {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    expected("an integer of 64 bits");
  int64_t number = value.get<int64_t>();
  if (number < min || number > max)
    expected("an integer from " + std::to_string(min) + " to " +
             std::to_string(max));
  return number;
}

size_t JsonReader::asIndex(size_t count, const char *what) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= count)
    expected("the index of one of " + std::to_string(count) + " " + what);
  return value.get<size_t>();
}
