//===- DataType.cpp - Element types of tensors in memory ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Support/DataType.h"
#include "fp8moe-c/Runtime.h"

using namespace fp8moe::support;

static constexpr DataType dataTypes[] = {
    {"BOOL", FP8MOE_DTYPE_BOOL, 1},
    {"U8", FP8MOE_DTYPE_U8, 1},
    {"I8", FP8MOE_DTYPE_I8, 1},
    {"U16", FP8MOE_DTYPE_U16, 2},
    {"I16", FP8MOE_DTYPE_I16, 2},
    {"U32", FP8MOE_DTYPE_U32, 4},
    {"I32", FP8MOE_DTYPE_I32, 4},
    {"U64", FP8MOE_DTYPE_U64, 8},
    {"I64", FP8MOE_DTYPE_I64, 8},
    {"F8_E4M3", FP8MOE_DTYPE_F8_E4M3, 1},
    {"F8_E5M2", FP8MOE_DTYPE_F8_E5M2, 1},
    {"F8_E8M0", FP8MOE_DTYPE_F8_E8M0, 1},
    {"F8_E4M3FNUZ", FP8MOE_DTYPE_F8_E4M3FNUZ, 1},
    {"F8_E5M2FNUZ", FP8MOE_DTYPE_F8_E5M2FNUZ, 1},
    {"F16", FP8MOE_DTYPE_F16, 2},
    {"BF16", FP8MOE_DTYPE_BF16, 2},
    {"F32", FP8MOE_DTYPE_F32, 4},
    {"F64", FP8MOE_DTYPE_F64, 8},
};

const DataType *fp8moe::support::findDataType(std::string_view name) {
  for (const DataType &type : dataTypes)
    if (name == type.name)
      return &type;
  return nullptr;
}

const DataType *fp8moe::support::findDataType(int32_t code) {
  for (const DataType &type : dataTypes)
    if (code == type.code)
      return &type;
  return nullptr;
}

std::string fp8moe::support::listDataTypes() {
  std::string names;
  for (const DataType &type : dataTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}
