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
/// which FP8MOE_DYNAMIC leaves the choice: known strides are kept, and the
/// dimensions of `order` follow densely, one after the other.
llvm::SmallVector<int64_t> chooseStrides(llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<int64_t> wanted,
                                         llvm::ArrayRef<size_t> order);

/// As above in different orders, the last dimension innermost first. A manifest
/// says what the strides of a dense tensor must be by conditions on them, so
/// which order it means shows when they are tried.
std::vector<llvm::SmallVector<int64_t>>
listStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> wanted);

/// Copies every element from dense row-major memory to the strided one.
void denseToStrided(const void *dense, void *strided,
                    llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int64_t> strides, uint64_t elementBytes);

/// The other way.
void stridedToDense(const void *strided, void *dense,
                    llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int64_t> strides, uint64_t elementBytes);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_STRIDEDCOPY_H
