//===- Sizes.h - Sizes of a program -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SIZES_H
#define SIZES_H

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using nlohmann::json;

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bytes of an element by the name of its type.
int64_t getElementBytes(const std::string &dtype);

/// Evaluates the sizes that a program of a manifest is made of. What depends on
/// addresses may be asked for once `addresses` are there, nothing else needs
/// them: so buffers are allocated by the sizes, and launches follow.
///
/// Every free extent is `rows`, and every free stride that of a dense tensor.
class Sizes {
public:
  Sizes(const json &program, int64_t rows,
        std::function<int64_t(const std::string &)> readDevice)
      : program(program), rows(rows), readDevice(std::move(readDevice)),
        known(program["values"].size()) {}

  /// A scalar of the manifest: an integer, or {"value": i}.
  int64_t get(const json &scalar);
  int64_t getExtent(size_t buffer, size_t dim);
  int64_t getStride(size_t buffer, size_t dim);
  /// From the first byte of a buffer to its last.
  int64_t getBytes(size_t buffer);

  /// Addresses of the buffers.
  std::vector<char *> addresses;

private:
  int64_t compute(const json &value);

  const json &program;
  int64_t rows;
  std::function<int64_t(const std::string &)> readDevice;
  std::vector<std::optional<int64_t>> known;
};

#endif // SIZES_H
