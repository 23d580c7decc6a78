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

/// The bytes of a tile, line by line. Eight threads that write the same chunk
/// of their lines, or read a line, meet in no bank: chunks are permuted in a
/// line. With a block behind each line, lines that neighbouring threads have
/// are neighbours here, an odd number of chunks apart, so that chunks of a line
/// follow each other. That takes more registers where it is not needed.
class LineTile {
public:
  LineTile(KernelBuilder &b, int64_t linesPerThread, bool hasMore,
           StringRef name)
      : b(b), linesPerThread(linesPerThread), hasMore(hasMore),
        pitch(kSegmentTile + (hasMore ? kMXBlock + kVectorBytes : 0)),
        memory(b.allocateShared(kSegmentTile * pitch, name)) {}

  Value load(Value line, Value chunk) {
    return b.load(b.getWordsType(), getAddress(line, chunk), kVectorBytes);
  }
  void store(Value words, Value line, Value chunk) {
    b.store(words, getAddress(line, chunk), kVectorBytes);
  }
  /// Stores a word of a line, of which `word` counts all.
  void storeWord(Value bytes, Value line, Value word) {
    Value chunk = getAddress(line, b.divU(word, kWordsPerChunk));
    Value inChunk = b.mul(b.remU(word, kWordsPerChunk), kWordBytes);
    b.store(bytes, b.offsetBytes(chunk, inChunk), kWordBytes);
  }

private:
  Value getAddress(Value line, Value chunk) {
    Value thread = b.divU(line, linesPerThread), place = line;
    if (hasMore)
      place = b.add(
          b.mul(b.remU(line, linesPerThread), kSegmentTile / linesPerThread),
          thread);
    else
      chunk = b.bitXor(chunk, b.remU(thread, kChunksPerLine));
    return b.offsetBytes(
        memory, b.add(b.mul(place, pitch), b.mul(chunk, kVectorBytes)));
  }

  KernelBuilder &b;
  int64_t linesPerThread;
  bool hasMore;
  int64_t pitch;
  Value memory;
};

/// The bytes of a tile as they lie across lines: element by element.
class ElementTile {
public:
  ElementTile(KernelBuilder &b, StringRef name)
      : b(b), memory(b.allocateShared(kSegmentTile * kSegmentTile, name)) {}

  Value load(Value element, Value line) {
    return b.load(b.getWordsType(), getAddress(element, line), kVectorBytes);
  }
  /// Stores the bytes of as many lines as `bytes` has.
  void store(Value bytes, Value element, Value line) {
    b.store(bytes, getAddress(element, line),
            bytes.getType().getIntOrFloatBitWidth() / 8);
  }

private:
  Value getAddress(Value element, Value line) {
    return b.offsetBytes(memory, b.add(b.mul(element, kSegmentTile), line));
  }

  KernelBuilder &b;
  Value memory;
};

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
              StringRef name);

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
  void putWords(Value line, Value block, Value number, ArrayRef<Value> words);

  MXKernel &kernel;
  KernelBuilder &b;
  int64_t numLines;
  bool hasMore;
  std::optional<LineTile> alongLines;
  std::optional<ElementTile> acrossLines;
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
