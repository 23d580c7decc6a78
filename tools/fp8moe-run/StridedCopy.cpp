//===- StridedCopy.cpp - Between files and memory layouts -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedCopy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace fp8moe::run;
using llvm::ArrayRef;
using llvm::SmallVector;

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

SmallVector<int64_t> fp8moe::run::chooseStrides(ArrayRef<int64_t> shape,
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

/// Calls `copy(dense offset, strided offset, number of elements, stride)` for
/// every run of elements along the last dimension; offsets in bytes.
template <typename Fn>
static void forEachRow(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                       uint64_t elementBytes, Fn copy) {
  if (llvm::is_contained(shape, 0))
    return;
  if (shape.empty())
    return copy(0, 0, 1, elementBytes);
  ArrayRef<int64_t> outer = shape.drop_back();
  SmallVector<int64_t> index(outer.size(), 0);
  uint64_t rowBytes = shape.back() * elementBytes;
  for (uint64_t dense = 0;; dense += rowBytes) {
    uint64_t strided = 0;
    for (auto [position, stride] : llvm::zip_first(index, strides))
      strided += position * stride;
    copy(dense, strided * elementBytes, shape.back(),
         strides.back() * elementBytes);
    size_t dim = outer.size();
    while (dim > 0 && ++index[dim - 1] == outer[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

void fp8moe::run::denseToStrided(const void *dense, void *strided,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides,
                                 uint64_t elementBytes) {
  const auto *from = static_cast<const char *>(dense);
  auto *to = static_cast<char *>(strided);
  forEachRow(
      shape, strides, elementBytes,
      [&](uint64_t source, uint64_t target, int64_t count, uint64_t step) {
        for (int64_t i = 0; i < count; ++i)
          std::memcpy(to + target + i * step, from + source + i * elementBytes,
                      elementBytes);
      });
}

void fp8moe::run::stridedToDense(const void *strided, void *dense,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides,
                                 uint64_t elementBytes) {
  const auto *from = static_cast<const char *>(strided);
  auto *to = static_cast<char *>(dense);
  forEachRow(
      shape, strides, elementBytes,
      [&](uint64_t target, uint64_t source, int64_t count, uint64_t step) {
        for (int64_t i = 0; i < count; ++i)
          std::memcpy(to + target + i * elementBytes, from + source + i * step,
                      elementBytes);
      });
}
