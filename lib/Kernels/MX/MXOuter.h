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

/// Positions of a line that fill a word with bytes.
inline constexpr int64_t kPositions = kWordBytes;
/// Blocks of a line of a tile, chunks of bytes of a line and of a block, and
/// words of positions of a block.
inline constexpr int64_t kBlocks = kSegmentTile / kMXBlock;
inline constexpr int64_t kChunksPerLine = kSegmentTile / kVectorBytes;
inline constexpr int64_t kChunksPerBlock = kMXBlock / kVectorBytes;
inline constexpr int64_t kWordsPerChunk = kVectorBytes / kWordBytes;
inline constexpr int64_t kChunks = kMXBlock / kPositions;

/// The factors that quantize the elements of some lines at some positions, from
/// chunk number `chunk` of a block on: a factor (f32) for each, or the words of
/// bf16 for those of the chunk if the kernel `packsFactors`.
using FactorsOf = function_ref<SmallVector<Value>(Value chunk)>;

/// The data of a quantization, which threads that have blocks of some lines put
/// into shared memory, and store from there in chunks of 16 bytes.
class OuterOutput {
public:
  /// `alongLines`: chunks lie along lines, else across them. `hasMore`: there
  /// is a block behind the tile, where sectors that begin in the tile end.
  OuterOutput(MXKernel &kernel, int64_t numLines, bool alongLines, bool hasMore,
              StringRef name)
      : kernel(kernel), b(kernel.b), numLines(numLines), alongLines(alongLines),
        hasMore(hasMore),
        pitch(kSegmentTile + (hasMore ? kMXBlock + kVectorBytes : 0)),
        memory(b.allocateShared(kSegmentTile * pitch, name)) {}

  /// Puts the elements of a chunk of input: those of `numLines` lines from
  /// `line` on at kPositions positions of the block.
  void putChunk(Value line, Value block, Value number, Value chunk,
                ArrayRef<Value> factors);
  /// Puts all chunks of the block.
  void putBlock(Value line, Value block, ArrayRef<Value> chunks,
                FactorsOf getFactors);
  /// Stores what all threads have put.
  void store(const MXTile &tile);

private:
  SmallVector<Value> convert(Value chunk, ArrayRef<Value> factors);
  /// Where a chunk of a line lies in shared memory. Eight threads that write
  /// the same chunk of their lines, or read a line, meet in no bank: chunks are
  /// permuted in a line. With a block behind each line, lines that neighbouring
  /// threads have are neighbours here, an odd number of chunks apart, so that
  /// chunks of a line follow each other. That takes more registers where it is
  /// not needed.
  Value getChunk(Value line, Value chunk);
  /// Where elements lie across lines, from one of `line` on.
  Value getElements(Value element, Value line);

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  bool alongLines, hasMore;
  /// Bytes from one line, or element, to the next.
  int64_t pitch;
  Value memory;
};

/// (X9): the largest of the magnitudes (i32) of 32 lines, of which each thread
/// has some neighbouring ones. All lanes of a subgroup take part.
Value maxOfBlockLines(KernelBuilder &b, ArrayRef<Value> magnitudes);

/// Quantizes the blocks of a tile along the axis that lies across the lines of
/// its threads, from the elements that these have in registers: 32 positions of
/// a few neighbouring lines each. Lines of the threads are elements of
/// `kernel`, and positions are its lines.
class MXAcross {
public:
  MXAcross(MXKernel &kernel, int64_t numLines);

  /// Puts scales and factors, from what this thread has of its block: `chunks`
  /// of the lines from `line` on. All lanes of a subgroup take part. In square
  /// blocks `magnitudes` are theirs.
  void putFactors(const MXTile &tile, Value line, Value block,
                  ArrayRef<Value> chunks, ArrayRef<Value> magnitudes);
  /// Puts the zeros that tiles of scales have where a block has no elements.
  void putNoScales(const MXTile &tile, Value line, Value block);
  /// Quantizes these chunks, when all lanes have put factors.
  void putBlock(Value line, Value block, ArrayRef<Value> chunks);
  /// Stores what all threads have put.
  void store(const MXTile &tile);

  MXKernel &kernel;

private:
  Value exchangeMagnitudes(Value lane, ArrayRef<Value> chunks);
  SmallVector<Value> packMagnitudes(ArrayRef<Value> chunks);
  SmallVector<Value> getMax(ArrayRef<Value> lhs, ArrayRef<Value> rhs);
  /// The first of a lane's positions: it has as many as lines.
  Value getFirstPosition(Value line, Value block);
  /// Where the factor of a position of a block lies.
  Value getFactor(Value line, Value position);

  KernelBuilder &b;
  int64_t numLines;
  OuterOutput output;
  /// The bytes of a tile of scales, and the word with the factor of each block,
  /// an f32 or a bf16 in both halves: those of 128 positions for each 32 lines.
  Value scaleTile, factors;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXOUTER_H
