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
  /// "BF16 5000x2048".
  std::string describe() const;
};

/// "5000x2048", "?x2048" where an extent is open, or "scalar".
std::string formatShape(llvm::ArrayRef<int64_t> shape);

/// Strides for an input of extents `shape` whose program accepts `wanted`, in
/// which FP8MOE_DYNAMIC leaves the choice: known strides are kept, and other
/// dimensions follow densely, in different orders, the last one innermost
/// first. A manifest says what the strides of a dense tensor must be by
/// conditions on them, so which order it means shows when they are tried.
std::vector<llvm::SmallVector<int64_t>>
listStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> wanted);

/// The strides of a tensor that is dense and row-major.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

/// Copies every element from one place to another.
void copyElements(llvm::ArrayRef<int64_t> shape, uint64_t elementBytes,
                  const uint8_t *from, llvm::ArrayRef<int64_t> fromStrides,
                  uint8_t *to, llvm::ArrayRef<int64_t> toStrides);

/// Fills a tensor for `fp8moe-run --random`. The same seed gives the same bytes
/// on every machine: only integer arithmetic and exact float operations are
/// used. Floats are bell-shaped around zero with some larger by orders of
/// magnitude, as gradients are; FP8 and E8M0 are codes that are not NaN; a
/// 32-bit integer is the end of a group of `rows` rows: ends do not decrease, a
/// quarter of the groups is empty, and rows may be left after the last one.
/// Returns false for an element type that has no such convention.
bool fillRandom(HostTensor &tensor, int64_t rows, std::mt19937_64 &engine);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_HOSTTENSOR_H
