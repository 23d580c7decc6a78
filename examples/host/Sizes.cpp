//===- Sizes.cpp - Sizes of a program -------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/reference/manifest.md defines each operation. The runtime also reports
// overflow, division by zero and unused values.
//
//===----------------------------------------------------------------------===//

#include "Sizes.h"

#include <algorithm>

int64_t getElementBytes(const std::string &dtype) {
  if (dtype == "BOOL" || dtype.rfind("F8_", 0) == 0)
    return 1;
  return std::stoll(dtype.substr(dtype.find_first_of("0123456789"))) / 8;
}

int64_t Sizes::get(const json &scalar) {
  if (scalar.is_number())
    return scalar;
  size_t index = scalar.at("value");
  if (!known[index])
    known[index] = compute(program["values"][index]);
  return *known[index];
}

int64_t Sizes::getExtent(size_t buffer, size_t dim) {
  const json &entry = program["buffers"][buffer]["shape"][dim];
  return entry.contains("dim") ? rows : get(entry);
}

int64_t Sizes::getStride(size_t buffer, size_t dim) {
  const json &strides = program["buffers"][buffer]["strides"];
  if (!strides[dim].contains("stride"))
    return get(strides[dim]);
  int64_t stride = 1;
  for (size_t inner = dim + 1; inner < strides.size(); ++inner)
    stride *= getExtent(buffer, inner);
  return stride;
}

int64_t Sizes::getBytes(size_t buffer) {
  const json &decl = program["buffers"][buffer];
  int64_t last = 0;
  for (size_t dim = 0; dim < decl["shape"].size(); ++dim) {
    if (getExtent(buffer, dim) == 0)
      return 0;
    last += (getExtent(buffer, dim) - 1) * getStride(buffer, dim);
  }
  return (last + 1) * getElementBytes(decl["dtype"]);
}

int64_t Sizes::compute(const json &value) {
  const std::string op = value["op"];
  const json &args = value["args"];
  if (op == "const")
    return args[0];
  if (op == "dim")
    return getExtent(args[0], args[1]);
  if (op == "stride")
    return getStride(args[0], args[1]);
  if (op == "device_attr")
    return readDevice(args[0]);
  if (op == "aligned")
    return reinterpret_cast<uintptr_t>(addresses.at(args[0])) %
               args[1].get<uintptr_t>() ==
           0;
  if (op == "select")
    return get(args[0]) ? get(args[1]) : get(args[2]);
  int64_t a = get(args[0]), b = get(args[1]);
  if (op == "add")
    return a + b;
  if (op == "sub")
    return a - b;
  if (op == "mul")
    return a * b;
  if (op == "div")
    return a / b;
  if (op == "rem")
    return a % b;
  if (op == "ceildiv")
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
  if (op == "max")
    return std::max(a, b);
  if (op == "min")
    return std::min(a, b);
  if (op == "lt")
    return a < b;
  if (op == "le")
    return a <= b;
  if (op == "eq")
    return a == b;
  if (op == "ne")
    return a != b;
  if (op == "and")
    return a & b;
  if (op == "or")
    return a | b;
  throw Error("values have an operation '" + op + "', which is unknown here");
}
