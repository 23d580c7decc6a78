//===- HostTensor.h - Tensors in host memory --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_HOSTTENSOR_H
#define FP8MOE_TOOLS_RUN_HOSTTENSOR_H

#include "fp8moe-c/Runtime.h"
#include "fp8moe/Support/DataType.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <random>
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
  /// Returns text such as "BF16 5000x2048".
  std::string describe() const;
};

/// Returns "5000x2048", "?x2048" if an extent is dynamic, or "scalar".
std::string formatShape(llvm::ArrayRef<int64_t> shape);

/// Lists possible strides of an input of shape `shape` whose program accepts
/// `wanted`. Known strides are kept. FP8MOE_DYNAMIC ones become dense, in
/// several orders of their dimensions, row-major first. A manifest states the
/// strides of a dense tensor as conditions only, so callers try the orders.
std::vector<llvm::SmallVector<int64_t>>
listStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> wanted);

/// Returns dense row-major strides.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

/// Copies every element between two strided tensors of one shape.
void copyElements(llvm::ArrayRef<int64_t> shape, uint64_t elementBytes,
                  const uint8_t *from, llvm::ArrayRef<int64_t> fromStrides,
                  uint8_t *to, llvm::ArrayRef<int64_t> toStrides);

/// Fills a tensor for `fp8moe-run --random`. The same seed gives the same bytes
/// on every machine, as only integer and exact float operations are used.
/// Floats have a bell curve around zero with outliers, like gradients. FP8 and
/// E8M0 codes are never NaN. 32-bit integers are ends of groups of `rows` rows:
/// not decreasing, some groups empty, maybe with rows after the last one.
/// Returns false for other element types.
bool fillRandom(HostTensor &tensor, int64_t rows, std::mt19937_64 &engine);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_HOSTTENSOR_H
