//===- TransposeTile.h - A tile transposed by a block -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_TRANSPOSETILE_H
#define FP8MOE_LIB_KERNELS_EMIT_TRANSPOSETILE_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Transposes elements of several 16-byte chunks into words: word i holds
/// element i of each chunk. There must be as many chunks as elements fit a
/// word.
SmallVector<Value> packAcross(KernelBuilder &b, ArrayRef<Value> chunks,
                              IntegerType elementType);

/// Shared memory through which a block transposes tiles. A tile is a number
/// of rows of 128 bytes. When it is written, 256 threads share 8 groups of
/// `rowsPerThread` consecutive rows; thread t of them holds one word (4 bytes
/// along the row) in each row of its group:
///
///     rows  rowsPerThread * (t % 8) ...    word  t / 8 of the row
///
/// The next 256 threads have the next 8 groups.
///
/// When it is read, a thread gets up to 16 bytes along a row. Words are
/// permuted in the row (XOR with a function of the row), so that a warp writes
/// to different banks and reads whole rows.
class TransposeTile {
public:
  /// Threads of a block are a multiple of this.
  static constexpr int64_t kThreads = 256;
  static constexpr int64_t kRowBytes = 128;
  static constexpr int64_t kChunkBytes = 16;

  TransposeTile(KernelBuilder &b, int64_t rowsPerThread, int64_t buffers);

  int64_t getRows() const {
    return rowsPerThread * kRowGroups * (b.getNumThreads() / kThreads);
  }
  /// Returns the shared memory of all buffers in bytes.
  int64_t getBytes() const { return buffers * getRows() * kRowBytes; }
  /// Return the first row that the thread writes, and its word within the row.
  Value getWriteRow();
  Value getWriteWord();
  /// Returns the word that the subgroup's first thread writes, its lowest.
  Value getFirstWriteWord();

  using Consume = function_ref<void(Value row, Value chunk, Value words)>;

  /// Writes the thread's words to a buffer (numbered from 0), waits for the
  /// block, and calls `consume` with the chunks of the tile that this thread
  /// reads. A block that alternates between two buffers needs no other barrier.
  void transpose(Value buffer, ArrayRef<Value> words, Consume consume,
                 int64_t chunkBytes = kChunkBytes);

  /// Writes the thread's words to a buffer, then waits at a block barrier.
  void write(Value buffer, ArrayRef<Value> words);
  /// Calls `consume` with the chunks that this thread reads, by row and chunk
  /// within the row. Chunks have 16 bytes; 8 or 4 are for threads that widen
  /// them.
  void forEachChunk(Value buffer, Consume consume,
                    int64_t chunkBytes = kChunkBytes);

  /// Loads chunk `chunk` of a row of a buffer. Requires that the buffer was
  /// written.
  Value loadChunk(Value buffer, Value row, Value chunk,
                  int64_t chunkBytes = kChunkBytes);

  /// Returns the address of byte `byte` of a row of a buffer.
  Value getBytePointer(Value buffer, Value row, Value byte);

private:
  /// Number of row groups that 256 threads write.
  static constexpr int64_t kRowGroups = 8;

  Value getRowGroup();
  Value getAddress(Value buffer, Value row, Value word, Value rowGroup);

  KernelBuilder &b;
  int64_t rowsPerThread, buffers;
  Value memory;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_TRANSPOSETILE_H
