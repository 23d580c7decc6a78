//===- Safetensors.h - Reading and writing safetensors files ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The safetensors format: the length of the header (8 bytes, little-endian),
// the header in JSON, then the data of all tensors. Tensors are dense,
// row-major and without gaps between them. Files may be larger than memory, so
// they are mapped.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_SUPPORT_SAFETENSORS_H
#define FP8MOE_SUPPORT_SAFETENSORS_H

#include "fp8moe/Support/DataType.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8moe::support {

/// A tensor of a file. SafetensorsFile owns `data`, which may be unaligned.
struct SafetensorsTensor {
  std::string name;
  const DataType *dtype = nullptr;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  uint64_t bytes = 0;
};

/// A validated file, opened for reading.
class SafetensorsFile {
public:
  /// Opens and validates a file. On failure `error` is "PATH: REASON".
  static std::optional<SafetensorsFile> open(const std::string &path,
                                             std::string &error);

  /// Returns the tensors in the order of their data.
  const std::vector<SafetensorsTensor> &tensors() const { return contents; }

  /// Returns the tensor of that name, or null.
  const SafetensorsTensor *find(std::string_view name) const;

  /// Returns the entries of "__metadata__".
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  SafetensorsFile() = default;

  /// The mapped bytes. They are unmapped with the last copy of this object.
  std::shared_ptr<const uint8_t> mapping;
  std::vector<SafetensorsTensor> contents;
  std::map<std::string, std::string> notes;
};

/// Writes `tensors` to `path` atomically. Their `bytes` are ignored and
/// computed from type and shape. The data is sorted by element size, largest
/// first, then by name. On failure returns false and `error` is "PATH: REASON".
bool writeSafetensors(const std::string &path,
                      std::vector<SafetensorsTensor> tensors,
                      const std::map<std::string, std::string> &metadata,
                      std::string &error);

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_SAFETENSORS_H
