//===- MXInner.cpp - Blocks along the contiguous dimension ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Two neighbouring threads have a block of each of four lines: 16 elements
// each, of which they exchange the largest magnitude.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/ShiftedLines.h"
#include "Kernels/Emit/TransposeTile.h"
#include "Kernels/MX/MXKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Elements and lines of a thread.
static constexpr int64_t kElements = kVectorBytes;
static constexpr int64_t kLines = kWordBytes;
static constexpr int64_t kThreadsPerBlock = kMXBlock / kElements;
static constexpr int64_t kThreadsPerLine = kSegmentTile / kElements;

static_assert(kThreadsPerLine * kSegmentTile / kLines ==
                  TransposeTile::kThreads &&
              kSegmentTile == TransposeTile::kRowBytes);

namespace {
class InnerBuilder {
public:
  explicit InnerBuilder(MXKernel &kernel) : kernel(kernel), b(kernel.b) {
    if (kernel.problem.square)
      halves = b.allocateShared(2 * kSegmentTile / kMXBlock * kSegmentTile /
                                    kMXBlock * kWordBytes,
                                "halves");
  }

  void build();

private:
  void quantizeTile(const MXTile &tile);
  Value combineLines(ArrayRef<Value> magnitudes);
  int64_t getChunksPerLine() const {
    return kElements * kernel.math.getInputBytes() / kVectorBytes;
  }
  /// The chunks that the thread has of its line `index`.
  ArrayRef<Value> getLine(ArrayRef<Value> chunks, int64_t index) const {
    return chunks.slice(index * getChunksPerLine(), getChunksPerLine());
  }
  /// The values of a line, multiplied if the kernel `packsFactors`.
  SmallVector<Value> unpackLine(ArrayRef<Value> chunks, int64_t index,
                                Value multiplier) {
    SmallVector<Value> values;
    for (Value chunk : getLine(chunks, index)) {
      if (kernel.packsFactors) {
        Value pair = kernel.math.packFactors(multiplier, multiplier);
        chunk = kernel.createProduct(
            chunk, SmallVector<Value>(kVectorBytes / kWordBytes, pair));
      }
      llvm::append_range(values, kernel.math.unpackValues(chunk));
    }
    return values;
  }
  void storeAlongLines(const MXTile &tile, ArrayRef<Value> chunks,
                       ArrayRef<Value> multipliers);
  void storeAcrossLines(const MXTile &tile, ArrayRef<Value> chunks,
                        ArrayRef<Value> multipliers);

  MXKernel &kernel;
  KernelBuilder &b;
  /// The largest magnitudes of each half of the square blocks of a tile.
  Value halves;
  /// The thread's first element and first line in a tile.
  Value element, line;
};
} // namespace

void InnerBuilder::quantizeTile(const MXTile &tile) {
  // Loads behind the last line repeat it.
  SmallVector<Value> lines;
  for (int64_t i : llvm::seq(kLines))
    lines.push_back(b.minS(b.add(b.add(tile.lines.first, line), i),
                           b.sub(tile.lines.range.high, 1)));
  SmallVector<Value> chunks =
      loadChunks(b, tile.input, b.add(tile.elements.first, element),
                 getChunksPerLine(), lines, tile.elements.range);

  SmallVector<Value> magnitudes;
  for (int64_t i : llvm::seq(kLines)) {
    Value largest = kernel.math.createAbsMax(b.zeroWords(), getLine(chunks, i));
    Value magnitude = kernel.math.createLargest(largest);
    magnitudes.push_back(b.maxU(magnitude, b.shuffleXor(magnitude, 1)));
  }
  if (kernel.problem.square)
    magnitudes.assign(kLines, combineLines(magnitudes));
  MXKernel::Scales scales = kernel.createScales(magnitudes);
  b.createIf(b.equal(b.remU(b.getThread(), kThreadsPerBlock), 0), [&] {
    for (auto [i, byte] : llvm::enumerate(scales.bytes))
      kernel.storeScale(tile, b.add(line, i), b.divU(element, kMXBlock), byte);
  });
  if (kernel.toLines)
    storeAlongLines(tile, chunks, scales.multipliers);
  else
    storeAcrossLines(tile, chunks, scales.multipliers);
}

/// (X9): the largest magnitude of the 32 lines of a square block, which are
/// those of 64 neighbouring threads.
Value InnerBuilder::combineLines(ArrayRef<Value> magnitudes) {
  Value largest = magnitudes.front();
  for (Value magnitude : magnitudes.drop_front())
    largest = b.maxU(largest, magnitude);
  // Half of them are in each of two rows of words, whatever a subgroup is.
  constexpr int64_t kHalf = kThreadsPerLine * kMXBlock / kLines / 2;
  for (int64_t mask = kThreadsPerLine; mask < kHalf; mask *= 2)
    largest = b.maxU(largest, b.shuffleXor(largest, mask));
  Value half = b.divU(b.getThread(), kHalf);
  Value block = b.divU(element, kMXBlock);
  auto getAddress = [&](Value row) {
    Value word = b.add(b.mul(row, kSegmentTile / kMXBlock), block);
    return b.offsetBytes(halves, b.mul(word, kWordBytes));
  };
  // Other threads may still read those of the previous tile.
  b.createBarrier();
  b.storeWord(largest, getAddress(half));
  b.createBarrier();
  return b.maxU(largest, b.loadWord(getAddress(b.bitXor(half, 1))));
}

void InnerBuilder::storeAlongLines(const MXTile &tile, ArrayRef<Value> chunks,
                                   ArrayRef<Value> multipliers) {
  Value first = b.add(tile.elements.first, element);
  for (auto [i, multiplier] : llvm::enumerate(multipliers)) {
    Value words = b.packWords(
        kernel.createFP8(unpackLine(chunks, i, multiplier),
                         SmallVector<Value>(kElements, multiplier)));
    Value position = b.add(b.add(tile.lines.first, line), i);
    b.createIf(tile.lines.contains(b, position), [&] {
      storeChunk(b, tile.output, first, position, words, tile.elements.range);
    });
  }
}

void InnerBuilder::storeAcrossLines(const MXTile &tile, ArrayRef<Value> chunks,
                                    ArrayRef<Value> multipliers) {
  // A word holds the same element of all lines.
  SmallVector<SmallVector<Value>> lines;
  for (int64_t i : llvm::seq(kLines))
    lines.push_back(unpackLine(chunks, i, multipliers[i]));
  SmallVector<Value> packed, factors;
  for (int64_t i : llvm::seq(kElements))
    for (int64_t j : llvm::seq(kLines)) {
      packed.push_back(lines[j][i]);
      factors.push_back(multipliers[j]);
    }
  TransposeTile shared(b, /*rowsPerThread=*/kElements, /*buffers=*/1);
  // Other threads may still read the previous tile from shared memory.
  b.createBarrier();
  shared.write(b.i64(0), kernel.createFP8(packed, factors));
  auto storeChunks = [&] {
    shared.forEachChunk(b.i64(0), [&](Value row, Value chunk, Value words) {
      Value position = b.add(tile.elements.first, row);
      Value first = b.add(tile.lines.first, b.mul(chunk, kVectorBytes));
      b.createIf(tile.elements.contains(b, position), [&] {
        storeChunk(b, tile.output, first, position, words, tile.lines.range);
      });
    });
  };
  storeLines(b, tile.output, tile.elements, tile.lines, shared, b.i64(0),
             storeChunks);
}

void InnerBuilder::build() {
  element = b.mul(b.remU(b.getThread(), kThreadsPerLine), kElements);
  line = b.mul(b.divU(b.getThread(), kThreadsPerLine), kLines);
  kernel.forEachTile(/*across=*/nullptr,
                     [&](const MXTile &tile) { quantizeTile(tile); });
}

void fp8moe::buildMXInner(MXKernel &kernel) { InnerBuilder(kernel).build(); }
