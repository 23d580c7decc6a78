//===- StridedCopy.h - Between files and memory layouts ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file holds tensors dense and row-major; a program reads and
// writes them in the layouts that its manifest says.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_STRIDEDCOPY_H
#define FP8MOE_TOOLS_RUN_STRIDEDCOPY_H

#include "fp8moe-c/Runtime.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace fp8moe::run {

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

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_STRIDEDCOPY_H
