//===- HostTensor.cpp - Between files and memory layouts ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace fp8moe::run;
using llvm::ArrayRef;
using llvm::SmallVector;

std::string fp8moe::run::formatShape(ArrayRef<int64_t> shape) {
  auto format = [](int64_t extent) {
    return extent == FP8MOE_DYNAMIC ? "?" : std::to_string(extent);
  };
  return shape.empty() ? "scalar"
                       : llvm::join(llvm::map_range(shape, format), "x");
}

uint64_t HostTensor::countBytes() const {
  uint64_t bytes = dtype->bytes;
  for (int64_t extent : shape)
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(extent));
  return bytes;
}

std::string HostTensor::describe() const {
  return std::string(dtype->name) + " " + formatShape(shape);
}

/// As many orders as four dimensions have.
static constexpr size_t kMaxListed = 24;

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? std::numeric_limits<int64_t>::max()
                                          : product;
}

/// The least stride that steps over dimensions in place, or lies within all of
/// their steps: `placed` are pairs of a stride and an extent.
static int64_t findStride(int64_t extent,
                          SmallVector<std::pair<int64_t, int64_t>> placed) {
  llvm::sort(placed);
  int64_t inner = 1;
  for (auto [stride, size] : placed) {
    if (multiply(inner, extent) <= stride)
      break;
    inner = std::max(inner, multiply(stride, size));
  }
  return inner;
}

/// Strides as above, where the dimensions of `order` follow one another.
static SmallVector<int64_t> chooseStrides(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> wanted,
                                          ArrayRef<size_t> order) {
  SmallVector<int64_t> strides(wanted);
  SmallVector<std::pair<int64_t, int64_t>> placed;
  for (auto [extent, stride] : llvm::zip_equal(shape, wanted))
    if (stride != FP8MOE_DYNAMIC && extent > 1)
      placed.emplace_back(stride, extent);
  for (size_t dim : order) {
    int64_t extent = std::max<int64_t>(shape[dim], 1);
    strides[dim] = findStride(extent, placed);
    if (extent > 1)
      placed.emplace_back(strides[dim], extent);
  }
  return strides;
}

std::vector<SmallVector<int64_t>>
fp8moe::run::listStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> wanted) {
  SmallVector<size_t> order;
  for (size_t dim = wanted.size(); dim-- > 0;)
    if (wanted[dim] == FP8MOE_DYNAMIC)
      order.push_back(dim);
  std::vector<SmallVector<int64_t>> result;
  do {
    SmallVector<int64_t> strides = chooseStrides(shape, wanted, order);
    if (!llvm::is_contained(result, strides))
      result.push_back(std::move(strides));
  } while (std::prev_permutation(order.begin(), order.end()) &&
           result.size() < kMaxListed);
  return result;
}

SmallVector<int64_t> fp8moe::run::getDenseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = multiply(strides[dim], shape[dim]);
  return strides;
}

void fp8moe::run::copyElements(ArrayRef<int64_t> shape, uint64_t elementBytes,
                               const uint8_t *from,
                               ArrayRef<int64_t> fromStrides, uint8_t *to,
                               ArrayRef<int64_t> toStrides) {
  // The other extents of an empty tensor may be of any size.
  if (llvm::is_contained(shape, 0))
    return;
  bool isRow = shape.size() == 1 && fromStrides[0] == 1 && toStrides[0] == 1;
  if (shape.empty() || isRow) {
    std::memcpy(to, from, (isRow ? shape[0] : 1) * elementBytes);
    return;
  }
  for (int64_t i = 0; i < shape.front(); ++i)
    copyElements(
        shape.drop_front(), elementBytes,
        from + i * fromStrides.front() * elementBytes, fromStrides.drop_front(),
        to + i * toStrides.front() * elementBytes, toStrides.drop_front());
}
