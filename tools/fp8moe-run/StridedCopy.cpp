//===- StridedCopy.cpp - Between files and memory layouts -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedCopy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>

using namespace fp8moe::run;
using llvm::ArrayRef;
using llvm::SmallVector;

SmallVector<int64_t> fp8moe::run::chooseStrides(ArrayRef<int64_t> shape,
                                                ArrayRef<int64_t> wanted) {
  SmallVector<int64_t> strides(wanted);
  if (strides.empty())
    return strides;
  int64_t pitch = 1;
  auto unit = llvm::find(strides, 1);
  if (unit == strides.end() && strides.back() == FP8MOE_DYNAMIC)
    unit = std::prev(strides.end());
  if (unit != strides.end()) {
    *unit = 1;
    pitch = std::max<int64_t>(shape[unit - strides.begin()], 1);
  }
  for (size_t i = strides.size(); i-- > 0;) {
    if (strides[i] != FP8MOE_DYNAMIC)
      continue;
    strides[i] = pitch;
    pitch *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
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
