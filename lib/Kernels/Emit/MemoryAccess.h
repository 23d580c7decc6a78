//===- MemoryAccess.h - 16-byte accesses with scalar edges ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_MEMORYACCESS_H
#define FP8MOE_LIB_KERNELS_EMIT_MEMORYACCESS_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

constexpr int64_t kVectorBytes = 16;

/// A half-open range of indices. Accesses near its ends (within 2^31) are
/// masked by it.
struct IndexRange {
  Value low, high;
};

/// A matrix in global memory: element (i, j) lies at
/// base + (i * vectorStride + j * otherStride) * elementBytes. Threads access
/// it in chunks of 16 bytes along i, which begin at multiples of the chunk
/// size.
struct Plane {
  Value base;
  int64_t elementBytes;
  Value vectorStride, otherStride;
  /// i1: every chunk is contiguous and aligned, so one vector access moves it.
  Value vectorizable;
  /// Guaranteed alignment of vector accesses in bytes. With the alignment of
  /// one element, vectors may begin at any element (Feature::UnalignedVectors).
  int64_t vectorAlignment = kVectorBytes;
  /// Whether elements of whole chunks have 32-bit byte offsets, not negative,
  /// from `base`. Only elements of other chunks may lie before `base`.
  bool isNear = false;
  /// Whether chunks that no vector access can load are loaded in a loop. A loop
  /// needs fewer registers than unrolled loads, and more time.
  bool savesRegisters = false;

  bool isUnaligned() const { return vectorAlignment < kVectorBytes; }
  /// Whether elements along i are known to be contiguous.
  bool isContiguous() const;

  int64_t getChunk() const { return kVectorBytes / elementBytes; }
};

/// Returns an i1: whether the 16-byte chunks of a buffer are contiguous and
/// aligned. It is a constant when the strides and the promised alignment
/// decide, else it is computed from the pointer and the strides.
Value createVectorizable(KernelBuilder &b, Value pointer, int64_t alignment,
                         int64_t elementBytes, Value vectorStride,
                         ValueRange otherStrides);

Value createElementPointer(KernelBuilder &b, const Plane &plane, Value index,
                           Value other);

/// Loads `chunks` consecutive chunks, from `first` on, of every row in
/// `others`. The result lists the chunks of the first row, then those of the
/// second, and so on. Elements outside of `range`, which must not be empty,
/// repeat an element inside.
SmallVector<Value> loadChunks(KernelBuilder &b, const Plane &plane, Value first,
                              int64_t chunks, ValueRange others,
                              IndexRange range);

/// Stores the elements of one chunk that are within `range`.
void storeChunk(KernelBuilder &b, const Plane &plane, Value first, Value other,
                Value words, IndexRange range);

/// Stores bytes `low` to `high` (i32, 0 to 16) of the chunk `words` to an
/// aligned `pointer`, with few naturally aligned stores of 1 to 8 bytes.
/// Threads with equal `low` and `high` do not diverge.
void storeBytes(KernelBuilder &b, Value pointer, Value words, Value low,
                Value high);

/// Returns a word whose lowest `bytes` (i32) bytes are ones. `bytes` is clamped
/// to [0, 4].
Value createByteMask(KernelBuilder &b, Value bytes);

/// Shifts a row of words right by `bits` (i32, below 32), each word with bits
/// of the next. Returns one word fewer.
Value createFunnelShift(KernelBuilder &b, ArrayRef<Value> row, Value bits);

/// Returns 16 bytes from byte `offset` (i32, 0 to 15) on of the 32 bytes in
/// `before`, then `words`.
Value createWordsAt(KernelBuilder &b, Value before, Value words, Value offset);

/// Stores zeros to the elements of one chunk that are within `range`.
void zeroChunk(KernelBuilder &b, const Plane &plane, Value first, Value other,
               IndexRange range);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_MEMORYACCESS_H
