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

/// Returns the bytes of an element by the name of its type.
int64_t getElementBytes(const std::string &dtype);

/// Evaluates the sizes of a manifest's program. Buffer sizes do not depend on
/// addresses, so buffers can be allocated first. Values of launches may depend
/// on `addresses`, which are set in between. Every dynamic extent is `rows`,
/// and every dynamic stride is that of a dense tensor.
class Sizes {
public:
  Sizes(const json &program, int64_t rows,
        std::function<int64_t(const std::string &)> readDevice)
      : program(program), rows(rows), readDevice(std::move(readDevice)),
        known(program["values"].size()) {}

  /// Returns a scalar of the manifest: an integer, or {"value": i}.
  int64_t get(const json &scalar);
  int64_t getExtent(size_t buffer, size_t dim);
  int64_t getStride(size_t buffer, size_t dim);
  /// Returns the bytes from the first to the last one of a buffer.
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
