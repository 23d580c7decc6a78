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

/// A tensor map of a call, with all sizes known. `request` has no address yet:
/// it is that of `buffer` plus `offset` bytes.
struct ResolvedTensorMap {
  size_t buffer = 0;
  uint64_t offset = 0;
  /// Whether the tensor has no elements. As the hardware rejects empty
  /// dimensions, the map has one element, which no kernel may access.
  bool isEmpty = false;
  TensorMapRequest request;
};

/// Computes tensor map `index` of a call. Throws Error if the hardware does not
/// support the tensor, or if the tensor exceeds its buffer.
ResolvedTensorMap resolveTensorMap(const Program &program, size_t index,
                                   const ResolvedSizes &sizes);

/// Encodes tensor map `index` for a buffer at `address`. An empty map is
/// encoded for `anywhere`, any memory of the device: copies touch the first
/// page of a map even if they are out of its bounds. Throws Error.
void encodeTensorMap(const Program &program, size_t index,
                     const ResolvedTensorMap &map, void *address,
                     void *anywhere, const Backend &backend,
                     EncodedTensorMap &encoded);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_TENSORMAPS_H
