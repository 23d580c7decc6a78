//===- HostTensor.h - A tensor in host memory -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_HOSTTENSOR_H
#define FP8MOE_TOOLS_RUN_HOSTTENSOR_H

#include "fp8moe/Support/DataType.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fp8moe::run {

/// A tensor in host memory, dense and row-major.
struct HostTensor {
  std::string name;
  const support::DataType *dtype = nullptr;
  llvm::SmallVector<int64_t> shape;
  std::vector<uint8_t> data;

  int64_t numElements() const;
  /// "BF16 5000x2048".
  std::string describe() const;
};

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_HOSTTENSOR_H
