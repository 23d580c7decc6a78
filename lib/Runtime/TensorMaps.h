//===- TensorMaps.h - Tensor maps of a call ---------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_TENSORMAPS_H
#define FP8MOE_LIB_RUNTIME_TENSORMAPS_H

#include "Backend.h"

namespace fp8moe::runtime {

/// A tensor map with every size known. Its request lacks the address, which is
/// that of `buffer` plus `offset` bytes.
struct ResolvedTensorMap {
  size_t buffer = 0;
  uint64_t offset = 0;
  /// The tensor has no elements: the hardware, which knows no empty dimension,
  /// gets one element that no kernel may touch.
  bool isEmpty = false;
  TensorMapRequest request;
};

/// Computes tensor map `index` of a call. Throws Error when the hardware does
/// not support the tensor, or when it leaves its buffer.
ResolvedTensorMap resolveTensorMap(const Program &program, size_t index,
                                   const ResolvedSizes &sizes);

/// Encodes tensor map `index` for a buffer at `address`; when it has no
/// elements for `anywhere` instead, which is any memory of the device: copies
/// through a map touch the page that it begins in even where they are outside
/// of it. Throws Error.
void encodeTensorMap(const Program &program, size_t index,
                     const ResolvedTensorMap &map, void *address,
                     void *anywhere, const Backend &backend,
                     EncodedTensorMap &encoded);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_TENSORMAPS_H
