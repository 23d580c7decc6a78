//===- Safetensors.h - Reading and writing safetensors files ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format: 8 bytes little-endian length of the header, the header in JSON,
// then the data of all tensors, dense row-major and without holes. Files may be
// larger than memory: they are mapped, not read.
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

/// A tensor of a file. The file owns `data`, which may be unaligned.
struct SafetensorsTensor {
  std::string name;
  const DataType *dtype = nullptr;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  uint64_t bytes = 0;
};

/// A file opened for reading; everything in it has been checked.
class SafetensorsFile {
public:
  /// On failure `error` is "PATH: what is wrong".
  static std::optional<SafetensorsFile> open(const std::string &path,
                                             std::string &error);

  /// In the order of the data.
  const std::vector<SafetensorsTensor> &tensors() const { return contents; }

  /// Null when there is none of that name.
  const SafetensorsTensor *find(std::string_view name) const;

  /// The entries of "__metadata__".
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  SafetensorsFile() = default;

  /// The mapped bytes; unmapped with the last copy of this object.
  std::shared_ptr<const uint8_t> mapping;
  std::vector<SafetensorsTensor> contents;
  std::map<std::string, std::string> notes;
};

/// Writes `tensors` (whose `bytes` are computed from type and shape) to `path`.
/// Any order of the tensors gives one file: the data is sorted by element size,
/// largest first, then by name. The file appears complete or not at all. On
/// failure returns false and `error` is "PATH: what is wrong".
bool writeSafetensors(const std::string &path,
                      std::vector<SafetensorsTensor> tensors,
                      const std::map<std::string, std::string> &metadata,
                      std::string &error);

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_SAFETENSORS_H
