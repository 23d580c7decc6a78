//===- DataType.h - Element types of tensors in memory ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_SUPPORT_DATATYPE_H
#define FP8MOE_SUPPORT_DATATYPE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace fp8moe::support {

/// The most dimensions that a buffer of a manifest has: compilers write and
/// readers take no more, so that what is done for each dimension is bounded.
inline constexpr int64_t kMaxRank = 16;

/// An element type. The codes are those of `fp8moe_dtype` in
/// fp8moe-c/Runtime.h, the names those of safetensors plus the two FNUZ types.
struct DataType {
  const char *name;
  int32_t code;
  uint32_t bytes;
};

/// The type of that name, or null.
const DataType *findDataType(std::string_view name);

/// The type of that code, or null.
const DataType *findDataType(int32_t code);

/// "BOOL, U8, ...", for messages.
std::string listDataTypes();

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_DATATYPE_H
