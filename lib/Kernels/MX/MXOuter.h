//===- MXOuter.h - Parts of kernels across lines -------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXOUTER_H
#define FP8MOE_LIB_KERNELS_MX_MXOUTER_H

#include "Kernels/MX/MXKernel.h"

namespace mlir::fp8moe {

/// Elements of a line whose FP8 bytes fill a word. (A position is an index
/// along a line.)
inline constexpr int64_t kPositions = kWordBytes;
/// Blocks, and 16-byte chunks of output, in a line of a tile. Such chunks in a
/// block, and words in a chunk. kChunks: groups of kPositions elements in a
/// block.
inline constexpr int64_t kBlocks = kSegmentTile / kMXBlock;
inline constexpr int64_t kChunksPerLine = kSegmentTile / kVectorBytes;
inline constexpr int64_t kChunksPerBlock = kMXBlock / kVectorBytes;
inline constexpr int64_t kWordsPerChunk = kVectorBytes / kWordBytes;
inline constexpr int64_t kChunks = kMXBlock / kPositions;

/// Returns the factors that quantize chunk `chunk` of a block and later ones:
/// an f32 for each element, or words of bf16 if the kernel `packsFactors`.
using FactorsOf = function_ref<SmallVector<Value>(Value chunk)>;

/// The FP8 output of a tile. Threads write it to shared memory and store it
/// from there in chunks of 16 bytes.
class OuterOutput {
public:
  /// `alongLines`: output chunks lie along lines, else across them. `hasMore`:
  /// shared memory also holds the block after the tile, for sectors that begin
  /// in the tile and end there.
  OuterOutput(MXKernel &kernel, int64_t numLines, bool alongLines, bool hasMore,
              StringRef name)
      : kernel(kernel), b(kernel.b), numLines(numLines), alongLines(alongLines),
        hasMore(hasMore),
        pitch(kSegmentTile + (hasMore ? kMXBlock + kVectorBytes : 0)),
        memory(b.allocateShared(kSegmentTile * pitch, name)) {}

  /// Quantizes a chunk of input, and writes it to shared memory. The chunk has
  /// kPositions elements of each of `numLines` lines from `line` on.
  void putChunk(Value line, Value block, Value number, Value chunk,
                ArrayRef<Value> factors);
  /// Quantizes all chunks of the block, and writes them to shared memory.
  void putBlock(Value line, Value block, ArrayRef<Value> chunks,
                FactorsOf getFactors);
  /// Stores the data of all threads to global memory. Requires a barrier
  /// before.
  void store(const MXTile &tile);

private:
  SmallVector<Value> convert(Value chunk, ArrayRef<Value> factors);
  /// Returns the address of a chunk of a line in shared memory. Chunks are
  /// permuted in a line: eight threads that write the same chunk of their
  /// lines, or read a line, have no bank conflict. With `hasMore`, lines of
  /// neighbouring threads are an odd number of chunks apart instead, so that
  /// chunks of a line are contiguous. That takes more registers.
  Value getChunk(Value line, Value chunk);
  /// Returns the address of an element of the lines from `line` on, where
  /// chunks lie across lines.
  Value getElements(Value element, Value line);

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  bool alongLines, hasMore;
  /// Bytes from one line to the next in shared memory, or from one element to
  /// the next where chunks lie across lines.
  int64_t pitch;
  Value memory;
};

/// Returns the amax (i32) of 32 lines, as square blocks (X9) need it. Each
/// thread has the magnitudes of some neighbouring lines. All lanes of a
/// subgroup take part.
Value maxOfBlockLines(KernelBuilder &b, ArrayRef<Value> magnitudes);

/// Quantizes a tile along the other axis, from elements that threads hold in
/// registers already: 32 positions of a few neighbouring lines each. Lines and
/// positions below are those of the threads. They are the elements and the
/// lines of `kernel`.
class MXAcross {
public:
  MXAcross(MXKernel &kernel, int64_t numLines);

  /// Computes scales and factors from the thread's elements, and writes them to
  /// shared memory. `chunks` are the block's chunks of the lines from `line`
  /// on. All lanes of a subgroup take part. With square blocks, `magnitudes` is
  /// their amax.
  void putFactors(const MXTile &tile, Value line, Value block,
                  ArrayRef<Value> chunks, ArrayRef<Value> magnitudes);
  /// Writes the zeros that a scale tile has for blocks without elements.
  void putNoScales(const MXTile &tile, Value line, Value block);
  /// Quantizes the chunks, once all lanes have run putFactors.
  void putBlock(Value line, Value block, ArrayRef<Value> chunks);
  /// Stores data and scales of all threads to global memory. Requires a
  /// barrier before.
  void store(const MXTile &tile);

  MXKernel &kernel;

private:
  Value exchangeMagnitudes(Value lane, ArrayRef<Value> chunks);
  SmallVector<Value> packMagnitudes(ArrayRef<Value> chunks);
  SmallVector<Value> getMax(ArrayRef<Value> lhs, ArrayRef<Value> rhs);
  /// Returns the first position whose factor this lane computes. Each lane has
  /// as many positions as lines.
  Value getFirstPosition(Value line, Value block);
  /// Returns the address of the factor of a position of a block.
  Value getFactor(Value line, Value position);

  KernelBuilder &b;
  int64_t numLines;
  OuterOutput output;
  /// A scale tile, and a word for the factor of each block: an f32, or a bf16
  /// in both halves. There are 128 factors, one a position, for each 32 lines.
  Value scaleTile, factors;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXOUTER_H
