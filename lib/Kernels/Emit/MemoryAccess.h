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

/// A half-open range of indices. Accesses near its ends (within 2^31) are cut
/// to it.
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
  /// i1: every chunk is contiguous and aligned, so it can move at once.
  Value vectorizable;
  /// The alignment that is promised of chunks that move at once. Chunks with
  /// the alignment of one element may begin anywhere
  /// (Feature::UnalignedVectors).
  int64_t vectorAlignment = kVectorBytes;
  /// Elements of whole chunks lie behind `base`, so near that 32 bits count the
  /// bytes to them. Only there may others lie before it.
  bool isNear = false;
  /// Chunks that cannot move at once are loaded in a loop, which needs fewer
  /// registers than all loads at once, and more time.
  bool savesRegisters = false;

  bool isUnaligned() const { return vectorAlignment < kVectorBytes; }
  /// Whether elements along i are known to follow each other.
  bool isContiguous() const;

  int64_t getChunk() const { return kVectorBytes / elementBytes; }
};

/// Whether the 16-byte chunks of a buffer are contiguous and aligned, as an i1:
/// a constant when the strides and the promised alignment decide, else computed
/// from the pointer and from the strides.
Value createVectorizable(KernelBuilder &b, Value pointer, int64_t alignment,
                         int64_t elementBytes, Value vectorStride,
                         ValueRange otherStrides);

Value createElementPointer(KernelBuilder &b, const Plane &plane, Value index,
                           Value other);

/// Loads `chunks` consecutive chunks, from `first` on, of every row in
/// `others`; the result lists the chunks of the first row, then those of the
/// second. Elements outside of `range`, which must not be empty, repeat one
/// inside.
SmallVector<Value> loadChunks(KernelBuilder &b, const Plane &plane, Value first,
                              int64_t chunks, ValueRange others,
                              IndexRange range);

/// Stores the elements of one chunk that are within `range`.
void storeChunk(KernelBuilder &b, const Plane &plane, Value first, Value other,
                Value words, IndexRange range);

/// Stores the bytes from `low` to `high` (i32, 0 to 16) of an aligned chunk at
/// `pointer`, as few aligned words and parts of words. Threads that have these
/// two in common take the same branches.
void storeBytes(KernelBuilder &b, Value pointer, Value words, Value low,
                Value high);

/// The lowest `bytes` bytes (i32) of a word: none where there are no more than
/// 0, all of them from four on.
Value createByteMask(KernelBuilder &b, Value bytes);

/// The words that begin `bits` (i32, below 32) into a row of words; one fewer.
Value createFunnelShift(KernelBuilder &b, ArrayRef<Value> row, Value bits);

/// The 16 bytes that begin `offset` bytes (i32, 0 to 15) in those of `before`,
/// behind which those of `words` follow.
Value createWordsAt(KernelBuilder &b, Value before, Value words, Value offset);

/// Stores zeros to the elements of one chunk that are within `range`.
void zeroChunk(KernelBuilder &b, const Plane &plane, Value first, Value other,
               IndexRange range);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_MEMORYACCESS_H
