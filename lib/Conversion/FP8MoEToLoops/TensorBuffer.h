//===- TensorBuffer.h - Tensors in memory -----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_TENSORBUFFER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_TENSORBUFFER_H

#include "LoopBuilder.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::fp8moe {

/// A tensor in memory. Elements are addressed by their logical indices in any
/// layout. Only this class knows the addresses of blocked layouts.
struct TensorBuffer {
  /// The tensor's type. Its encoding is the layout of `memref`.
  RankedTensorType type;
  /// The buffer, of type getBufferType(type).
  Value memref;
  /// The logical size of each dimension.
  SmallVector<Value> sizes;

  Type getElementType() const { return type.getElementType(); }
  int64_t getRank() const { return type.getRank(); }

  Value load(LoopBuilder &b, ArrayRef<Value> indices) const;
  void store(LoopBuilder &b, Value value, ArrayRef<Value> indices) const;

  /// Returns the dimensions from outermost to innermost in memory.
  SmallVector<int64_t> getMemoryOrder() const;

  /// Creates one loop per dimension in memory order, over the whole tensor.
  void forEachElement(LoopBuilder &b,
                      function_ref<void(ArrayRef<Value>)> body) const;

  /// As above, but only over [lower, upper) along `dim`.
  void forEachElement(LoopBuilder &b, int64_t dim, Value lower, Value upper,
                      function_ref<void(ArrayRef<Value>)> body) const;

  /// Writes zero to every byte that holds an element, and in blocked layouts
  /// to the padding too.
  void fillZero(LoopBuilder &b) const;

  /// Writes zero to the elements of [lower, upper) along `dim`.
  void fillZero(LoopBuilder &b, int64_t dim, Value lower, Value upper) const;

private:
  SmallVector<Value> getPhysicalIndices(LoopBuilder &b,
                                        ArrayRef<Value> indices) const;
};

/// Copies every element of `source` into `destination`, which has the same
/// logical sizes. Padding of a blocked destination becomes zero.
void copyElements(LoopBuilder &b, const TensorBuffer &source,
                  const TensorBuffer &destination);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_TENSORBUFFER_H
