//===- ShiftedLines.cpp - Lines that begin at any address -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/ShiftedLines.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Positions in a line are bytes (i32) from the tile's first element on.
class ShiftedStore {
public:
  ShiftedStore(KernelBuilder &b, const ShiftedLines &tile);

  void storeWholeChunks();
  void storeCutChunks();

private:
  /// How many bytes an element is behind the tile's first one.
  Value getDistance(Value element) {
    return b.mul(b.sub(element, tile.elements.first), tile.output.elementBytes);
  }
  Value getPointer(Value line) {
    return createElementPointer(b, tile.output, tile.elements.first,
                                b.add(tile.lines.first, line));
  }
  /// The tile's first byte in a line of the buffer.
  Value getFirstByte() {
    return b.mul(tile.elements.first, tile.output.elementBytes);
  }
  Value getFirstWhole(Value start);
  Value getFirstWholeAt(Value pointer);
  Value loadWords(Value line, Value chunk, Value next, Value position);
  Value loadInside(Value line, Value position);
  Value loadAnywhere(Value line, Value position);
  void storeWhole(Value line, Value pointer, Value position);
  void storeWholeOfAligned();
  void storeWholeOfAny();
  void storeCut(Value line, Value number);

  KernelBuilder &b;
  const ShiftedLines &tile;
  /// Whole chunks begin at a multiple of this: with more bytes at one of
  /// sectors, so that two tiles share none.
  int64_t alignment;
  /// The range's part of a line, and whether the tile begins where it does.
  Value low, high, isFirstTile;
};

} // namespace

ShiftedStore::ShiftedStore(KernelBuilder &b, const ShiftedLines &tile)
    : b(b), tile(tile),
      alignment(tile.moreBytes ? ShiftedLines::kSectorBytes : kVectorBytes) {
  assert(tile.lineBytes % kVectorBytes == 0 &&
         b.getNumThreads() % (tile.lineBytes / kVectorBytes) == 0 &&
         "threads take chunks of whole lines");
  assert(!tile.output.isUnaligned() && "chunks are aligned");
  const IndexRange &range = tile.elements.range;
  // No tile begins behind its range.
  high = b.narrow(
      b.minS(getDistance(range.high), tile.lineBytes + tile.moreBytes));
  low = tile.moreBytes
            ? b.i32(0)
            : b.narrow(b.clamp(getDistance(range.low), 0, tile.lineBytes));
  isFirstTile = b.equal(tile.elements.first, range.low);
}

/// The first position that may be that of a whole chunk, of lines that begin at
/// `start` bytes.
Value ShiftedStore::getFirstWhole(Value start) {
  Value begin = b.add(b.narrow(start), low);
  return b.add(low, b.bitAnd(b.sub(b.i32(0), begin), alignment - 1));
}

/// As above, for the line at `pointer`. Lines that all begin at multiples of a
/// chunk are as good as at multiples of a sector, and so they share one.
Value ShiftedStore::getFirstWholeAt(Value pointer) {
  Value start = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  if (tile.moreBytes)
    start = b.select(tile.output.vectorizable, getFirstByte(), start);
  return getFirstWhole(start);
}

/// Loads the 16 bytes at `position` of a line, which may straddle its chunks
/// `chunk` and `next`.
Value ShiftedStore::loadWords(Value line, Value chunk, Value next,
                              Value position) {
  auto load = [&](Value number) {
    return tile.loadChunk(line, b.widen(number));
  };
  return createWordsAt(b, load(chunk), load(next),
                       b.bitAnd(position, kVectorBytes - 1));
}

/// The words of a whole chunk.
Value ShiftedStore::loadInside(Value line, Value position) {
  Value chunk = b.divU(position, kVectorBytes);
  Value next = b.add(chunk, 1);
  // The chunk behind an aligned one is not used, and may not be there.
  if (!tile.moreBytes)
    next = b.minS(next, tile.lineBytes / kVectorBytes - 1);
  return loadWords(line, chunk, next, position);
}

/// The words of a chunk that may begin before the line or end behind its data;
/// outside of the line they are any bytes.
Value ShiftedStore::loadAnywhere(Value line, Value position) {
  const int64_t last = (tile.lineBytes + tile.moreBytes) / kVectorBytes - 1;
  // As unsigned numbers, positions before the line are far behind it.
  auto getChunk = [&](Value first) {
    return b.minS(b.divU(first, kVectorBytes), last);
  };
  return loadWords(line, getChunk(position),
                   getChunk(b.add(position, kVectorBytes)), position);
}

void ShiftedStore::storeWhole(Value line, Value pointer, Value position) {
  KernelBuilder::Step step(b, "store_whole_chunk");
  Value isWhole = b.lessEqual(b.add(position, kVectorBytes), high);
  Value isLine = tile.lines.contains(b, b.add(tile.lines.first, line));
  b.createIf(b.bitAnd(isWhole, isLine), [&] {
    b.store(loadInside(line, position),
            b.offsetBytes(pointer, b.widenSigned(position)), kVectorBytes);
  });
}

/// Stores the whole chunks of lines that share the position of their first
/// whole chunk.
void ShiftedStore::storeWholeOfAligned() {
  const int64_t perLine = tile.lineBytes / kVectorBytes;
  const int64_t step = b.getNumThreads() / perLine;
  Value line = b.divU(b.getThread(), perLine);
  Value position =
      b.add(getFirstWhole(getFirstByte()),
            b.narrow(b.mul(b.remU(b.getThread(), perLine), kVectorBytes)));
  auto store = [&](int64_t i) {
    Value further = b.add(line, i);
    storeWhole(further, getPointer(further), position);
  };
  int64_t i = 0;
  for (; i + step <= tile.numLines; i += step)
    store(i);
  if (i < tile.numLines)
    b.createIf(b.less(b.add(line, i), tile.numLines), [&] { store(i); });
}

/// Stores the whole chunks of any lines, in a loop, which needs few registers.
void ShiftedStore::storeWholeOfAny() {
  const int64_t perLine = tile.lineBytes / kVectorBytes;
  b.createFor(
      b.getThread(), b.i64(perLine * tile.numLines), b.getNumThreads(),
      [&](Value index) {
        Value line = b.divU(index, perLine);
        Value pointer = getPointer(line);
        Value inChunks = b.narrow(b.mul(b.remU(index, perLine), kVectorBytes));
        storeWhole(line, pointer, b.add(getFirstWholeAt(pointer), inChunks));
      });
}

void ShiftedStore::storeWholeChunks() {
  if (!tile.moreBytes)
    return storeWholeOfAny();
  b.createIf(
      tile.output.vectorizable, [&] { storeWholeOfAligned(); },
      [&] { storeWholeOfAny(); });
}

/// Stores what a line has before its first whole chunk, or behind its last one:
/// the chunk of that number, of which those in front come first.
void ShiftedStore::storeCut(Value line, Value number) {
  KernelBuilder::Step step(b, "store_cut_chunk");
  Value pointer = getPointer(line);
  Value firstWhole = getFirstWholeAt(pointer);
  Value end = b.minS(high, b.add(firstWhole, tile.lineBytes));
  Value isFront = b.less(number, alignment / kVectorBytes);
  Value position = b.select(
      isFront, b.add(b.sub(firstWhole, alignment), b.mul(number, kVectorBytes)),
      b.sub(end, b.bitAnd(b.sub(end, firstWhole), kVectorBytes - 1)));
  // With more bytes behind it, the tile before has stored these.
  Value isOwn = tile.moreBytes ? b.bitAnd(isFront, isFirstTile) : isFront;
  Value begin = b.select(isOwn, low, firstWhole);
  Value from = b.maxS(b.sub(begin, position), 0);
  Value to = b.minS(b.sub(end, position), kVectorBytes);
  b.createIf(b.less(from, to), [&] {
    storeBytes(b, b.offsetBytes(pointer, b.widenSigned(position)),
               loadAnywhere(line, position), from, to);
  });
}

void ShiftedStore::storeCutChunks() {
  const int64_t cutsPerLine = alignment / kVectorBytes + 1;
  auto storeCuts = [&] {
    b.createFor(b.getThread(), b.i64(cutsPerLine * tile.numLines),
                b.getNumThreads(), [&](Value index) {
                  Value line = b.remU(index, tile.numLines);
                  Value isLine =
                      tile.lines.contains(b, b.add(tile.lines.first, line));
                  b.createIf(isLine, [&] {
                    storeCut(line, b.narrow(b.divU(index, tile.numLines)));
                  });
                });
  };
  if (!tile.moreBytes)
    return storeCuts();
  // The end may be in the last sector that begins in the tile.
  Value endsNear = b.less(high, tile.lineBytes + tile.moreBytes);
  b.createIf(b.bitOr(isFirstTile, endsNear), storeCuts);
}

void fp8moe::storeLines(KernelBuilder &b, const ShiftedLines &tile,
                        function_ref<void()> storeChunks) {
  if (!tile.output.isContiguous())
    return storeChunks();
  // Where vectors may begin anywhere, chunks could be stored as they are; to
  // shift them takes registers that decide how many blocks are resident.
  if (!tile.moreBytes && b.getTarget().has(Feature::UnalignedVectors))
    return storeChunks();
  auto storeShifted = [&] {
    ShiftedStore store(b, tile);
    store.storeWholeChunks();
    store.storeCutChunks();
  };
  if (tile.moreBytes)
    return storeShifted();
  b.createIf(tile.output.vectorizable, storeChunks, storeShifted);
}

void fp8moe::storeLines(KernelBuilder &b, const Plane &output,
                        const TileExtent &lines, const TileExtent &elements,
                        TransposeTile &tile, Value buffer,
                        function_ref<void()> storeChunks) {
  auto loadChunk = [&](Value line, Value chunk) {
    return tile.loadChunk(buffer, line, chunk);
  };
  storeLines(b,
             {output, lines, elements, tile.getRows(), TransposeTile::kRowBytes,
              /*moreBytes=*/0, loadChunk},
             storeChunks);
}
