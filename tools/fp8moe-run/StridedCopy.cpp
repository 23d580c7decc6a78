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

/// Calls `copy` with the offsets in bytes of every element.
template <typename Fn>
static void forEachElement(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                           uint64_t elementBytes, Fn copy) {
  if (llvm::is_contained(shape, 0))
    return;
  if (shape.empty())
    return copy(/*dense=*/0, /*strided=*/0);
  ArrayRef<int64_t> outer = shape.drop_back();
  SmallVector<int64_t> index(outer.size(), 0);
  for (uint64_t dense = 0;;) {
    uint64_t strided = 0;
    for (auto [position, stride] : llvm::zip_first(index, strides))
      strided += position * stride;
    for (int64_t i = 0; i < shape.back(); ++i, dense += elementBytes)
      copy(dense, (strided + i * strides.back()) * elementBytes);
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
  forEachElement(shape, strides, elementBytes, [&](uint64_t from, uint64_t to) {
    std::memcpy(static_cast<char *>(strided) + to,
                static_cast<const char *>(dense) + from, elementBytes);
  });
}

void fp8moe::run::stridedToDense(const void *strided, void *dense,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides,
                                 uint64_t elementBytes) {
  forEachElement(shape, strides, elementBytes, [&](uint64_t to, uint64_t from) {
    std::memcpy(static_cast<char *>(dense) + to,
                static_cast<const char *>(strided) + from, elementBytes);
  });
}
