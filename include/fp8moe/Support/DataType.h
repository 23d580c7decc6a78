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

/// The largest rank of a buffer in a manifest. Compilers and readers enforce
/// it, so that work per dimension is bounded.
inline constexpr int64_t kMaxRank = 16;

/// An element type. Its code is that of `fp8moe_dtype` in fp8moe-c/Runtime.h.
/// Its name is that of safetensors, which the two FNUZ types extend.
struct DataType {
  const char *name;
  int32_t code;
  uint32_t bytes;
};

/// Returns the type of that name, or null.
const DataType *findDataType(std::string_view name);

/// Returns the type of that code, or null.
const DataType *findDataType(int32_t code);

/// Returns the names of all types for messages: "BOOL, U8, ...".
std::string listDataTypes();

} // namespace fp8moe::support

#endif // FP8MOE_SUPPORT_DATATYPE_H
