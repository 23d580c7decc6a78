//===- ResidentStrips.cpp - Strips held in registers ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block takes a piece of a strip: up to `heldTiles` tiles of 128 rows of one
// segment, in registers, each thread what it has of a transposed tile. It loads
// all of it, finds the magnitude of each column, and quantizes what it holds:
// the input is read once.
//
//   rows     low                 low + 1024              low + 2048    high
//            |       piece 0       |       piece 1         |   piece 2   |
//   block         b                       b + 1                 b + 2
//            tile 0 | .. | tile 7   tile 0 | ...
//
// Where a segment has more rows than a piece, each block posts the magnitudes
// of its piece to a slot of global memory, a word for each column, and reads
// those of the strip's other pieces. The sign bit of a word says that it was
// posted: no flag, no fence and no order is needed, as every word stands for
// itself.
//
// Blocks take pieces in turn, those of a strip one after the other. The host
// launches the kernel only where all blocks are resident and no strip has more
// pieces than there are blocks. So the pieces of a strip are of different
// blocks, and what a block did before any of them is of earlier strips: the
// first strip that is not done waits for nobody, and blocks cannot wait in a
// circle.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/AtomicWords.h"
#include "Kernels/Quantize/ResidentStrips/ResidentStripTiles.h"
#include "Kernels/Quantize/TwoPass/OuterStrips.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTileBuffers;
using two_pass::kTileRowBytes;
using two_pass::kTileVector;

/// Marks a word as posted; magnitudes have no sign.
static constexpr int64_t kPosted = int64_t(1) << 31;
/// Words of other pieces that a thread reads at a time.
static constexpr int64_t kWordsInFlight = 4;

namespace {
class ResidentStripBuilder : OuterStripBuilder {
public:
  ResidentStripBuilder(QuantizeKernel &kernel, ResidentStripsTileAttr attr,
                       Value slots)
      : OuterStripBuilder(kernel, QuantizeKind::OuterTransposing,
                          attr.getColumns(),
                          resident_strips::countThreads(attr.getColumns())),
        attr(attr), slots(slots) {}

  void build();

private:
  void quantizePiece();
  void quantizeRows();
  /// Makes the piece of a work tile the one at hand. The result (i1) is false
  /// behind the last one.
  Value enterPiece(Value workTile);

  Step getHeldStep(int64_t index);
  /// The chunks that the thread holds of a tile; anything where it has no rows.
  SmallVector<Value> loadHeld(const TransposedStep &at);
  void createScales(ArrayRef<Step> steps, ArrayRef<SmallVector<Value>> held);
  void exchangeMagnitudes();
  /// A thread's word in the slot of piece `index` (i32).
  Value getSlotWord(Value index, Value column);

  ResidentStripsTileAttr attr;
  /// Global memory, where pieces post; null where each strip is one.
  Value slots;
  Value strips;
  /// The piece at hand (i32): its number in the strip, and how many that has.
  Value piece, pieces;
  /// The strip (i64), and the slot (i64) of its first piece.
  Value strip, firstSlot;
};
} // namespace

void ResidentStripBuilder::build() {
  assert(b.getHooks().hasUnalignedVectors() && countsInSteps() &&
         "rows of a piece begin anywhere, and are counted from its first one");
  assert(columns == b.getSubgroupSize() && "a subgroup reads a slot");
  two_pass::SharedMemory memory(kind, columns, threads, b.getSubgroupSize());
  scaleMemory = b.allocateShared(memory.scales, "scales");
  magnitudeMemory = b.allocateShared(memory.magnitudes, "magnitudes");
  tile.emplace(b, kTileVector, kTileBuffers);
  assert(tile->getBytes() == memory.transposedTiles &&
         "occupancy was predicted for other tiles");
  enterTiles();
  strips = b.ceilDiv(kernel.sizes.parallel, columns);
  Value held = b.i64(resident_strips::getHeldRows(attr));
  Value all = kernel.problem.jagged
                  ? b.add(b.add(b.divU(kernel.sizes.reduction, held),
                                kernel.sizes.segments),
                          1)
                  : b.mul(kernel.sizes.segments,
                          b.maxS(b.ceilDiv(kernel.sizes.reduction, held), 1));
  // The host counts more pieces than there may be, and looking for one takes
  // long: behind the last one there are no others.
  b.createFor(b.getBlock(), b.mul(all, strips),
              b.zeroExtend(b.getI64Type(), b.getNumBlocks()), b.i32(0),
              [&](Value workTile, ValueRange isBehind) {
                return b.createIf(
                    b.equal(isBehind[0], 0), b.getI32Type(),
                    [&] {
                      Value exists = enterPiece(workTile);
                      b.createIf(exists, [&] { quantizePiece(); });
                      return SmallVector<Value>{
                          b.zeroExtend(b.getI32Type(), b.equal(exists, 0))};
                    },
                    [&] { return llvm::to_vector_of<Value>(isBehind); });
              });
}

Value ResidentStripBuilder::enterPiece(Value workTile) {
  int64_t held = resident_strips::getHeldRows(attr);
  auto widen = [&](Value number) {
    return b.zeroExtend(b.getI64Type(), number);
  };
  auto countPieces = [&](Value rows) {
    return b.truncate(b.getI32Type(), b.maxS(b.ceilDiv(rows, held), 1));
  };
  // The pieces of a strip follow each other, and so do the strips of a segment.
  Value number = b.divU(workTile, strips), index, first, start;
  if (kernel.problem.jagged) {
    SegmentTiling tiling{held, /*emptyHaveTile=*/true};
    tiling.outputPadding = kernel.problem.outputPadding;
    auto [found, firstTileRow, bounds] =
        findSegment(b, kernel.getOffsets(), number, kernel.sizes.segments,
                    kernel.sizes.reduction, tiling);
    index = found;
    first = b.divU(firstTileRow, held);
    start = bounds.start;
    pieces = countPieces(bounds.length);
    segment = kernel.createSegment(index, bounds);
  } else {
    pieces = countPieces(kernel.sizes.reduction);
    index = b.divU(number, widen(pieces));
    first = b.mul(index, widen(pieces));
    segment = kernel.createSegment(index);
  }
  Value inSegment =
      b.truncate(b.getI32Type(), b.sub(workTile, b.mul(first, strips)));
  Value stripInSegment = b.divU(inSegment, pieces);
  piece = b.sub(inSegment, b.mul(stripInSegment, pieces));
  strip = widen(stripInSegment);
  // Slots of jagged segments that have several pieces: the first piece has slot
  // 2n, where n whole pieces lie before it, and piece i has slot 2 (n + i) + 1.
  // The next segment begins more than a piece later, and its piece 1 behind
  // what is left of this one: no two pieces have the same slot.
  firstSlot = kernel.problem.jagged ? b.mul(b.divU(start, held), 2) : first;
  return b.less(strip, strips);
}

Value ResidentStripBuilder::getSlotWord(Value index, Value column) {
  Value number = index;
  if (kernel.problem.jagged)
    number = b.add(b.mul(index, 2),
                   b.zeroExtend(b.getI32Type(), b.less(b.i32(0), index)));
  number = b.add(firstSlot, b.zeroExtend(b.getI64Type(), number));
  Value slot = b.add(b.mul(number, strips), strip);
  Value word = b.add(b.mul(slot, columns), column);
  return b.offsetBytes(slots, b.mul(word, kWordBytes));
}

Step ResidentStripBuilder::getHeldStep(int64_t index) {
  Value zero = b.i64(0);
  Value rows =
      b.truncate(b.getI32Type(), b.sub(segment.rows.high, segment.rows.low));
  Value left = b.maxS(b.sub(rows, index * kTileRowBytes), 0);
  Value inStrip = b.minS(b.sub(kernel.sizes.parallel, firstColumn), columns);
  return {b.add(segment.rows.low, index * kTileRowBytes),
          zero,
          zero,
          {zero, b.zeroExtend(b.getI64Type(), left)},
          {b.sub(zero, firstColumn), inStrip}};
}

SmallVector<Value> ResidentStripBuilder::loadHeld(const TransposedStep &at) {
  SmallVector<Value> none(
      two_pass::kTilePack * kernel.getInputChunks(kTileVector), b.zeroWords());
  return ifRows(
      at.step, getSubgroupRow(), [&] { return loadTile(at, getOthers(at)); },
      none);
}

void ResidentStripBuilder::quantizePiece() {
  int64_t held = resident_strips::getHeldRows(attr);
  firstColumn = b.mul(strip, columns);
  Value begin =
      b.add(segment.rows.low, b.mul(b.zeroExtend(b.getI64Type(), piece), held));
  segment.rows = {begin, b.minS(segment.rows.high, b.add(begin, held))};
  // The rows behind the last segment are zeroed only.
  b.createIf(segment.hasScales, [&] { quantizeRows(); });
  b.createIf(b.equal(b.add(piece, 1), pieces), [&] { zeroFill(); });
}

void ResidentStripBuilder::quantizeRows() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  Plane output = kernel.getOutputPlane(segment, Along::Rows);
  SmallVector<Step> steps;
  SmallVector<SmallVector<Value>> chunks;
  for (int64_t i : llvm::seq(attr.getTiles())) {
    steps.push_back(getHeldStep(i));
    chunks.push_back(loadHeld(getTransposed(steps.back(), input, output)));
  }
  createScales(steps, chunks);
  SmallVector<Value> scales = loadScales(vectorInTile, kTileVector);
  for (int64_t i : llvm::seq(attr.getTiles()))
    b.createIf(b.less(b.i64(0), steps[i].rows.high), [&] {
      storeTile(b.i64(i % kTileBuffers), quantizeTile(chunks[i], scales),
                getTransposed(steps[i], input, output));
    });
}

void ResidentStripBuilder::createScales(ArrayRef<Step> steps,
                                        ArrayRef<SmallVector<Value>> held) {
  int64_t chunks = kernel.getInputChunks(kTileVector);
  SmallVector<Value> largest(chunks, b.zeroWords());
  for (auto [step, tileChunks] : llvm::zip_equal(steps, held))
    largest = ifRows(
        step, getSubgroupRow(),
        [&, tileChunks = ArrayRef<Value>(tileChunks)] {
          SmallVector<Value> next(largest);
          for (auto [i, chunk] : llvm::enumerate(tileChunks))
            next[i % chunks] =
                kernel.math.createAbsMax(next[i % chunks], chunk);
          return next;
        },
        largest);

  // Threads may still read the scales and tiles of the block's previous piece.
  b.createBarrier();
  storeMagnitudes(largest);
  b.createBarrier();
  if (slots)
    b.createIf(b.less(b.i32(1), pieces), [&] { exchangeMagnitudes(); });

  Value isFirst = b.equal(piece, 0);
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value offset = b.mul(b.getThread(), sizeof(float));
    Value magnitude = combineMagnitudes(b.offsetBytes(magnitudeMemory, offset),
                                        getNumSubgroups());
    Value scale = kernel.math.createScale(magnitude);
    b.store(scale, b.offsetBytes(scaleMemory, offset), sizeof(float));
    Value column = b.add(firstColumn, b.getThread());
    Value isMine = b.bitAnd(isFirst, b.less(column, kernel.sizes.parallel));
    b.createIf(isMine, [&] { kernel.storeScale(segment, column, scale); });
  });
  b.createBarrier();
}

/// Posts what the block's subgroups have found, and puts the magnitudes of all
/// pieces in its place: subgroup i those of pieces i, i + n, ...
void ResidentStripBuilder::exchangeMagnitudes() {
  Value column = b.getLane();
  Value pointer = b.offsetBytes(magnitudeMemory, b.mul(column, sizeof(float)));
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value word =
        b.bitOr(combineMagnitudes(pointer, getNumSubgroups()), kPosted);
    storeRelaxed(b, word, getSlotWord(piece, column));
  });
  b.createBarrier();
  Value subgroup = b.truncate(b.getI32Type(), b.getUniformSubgroup());
  Value last = b.sub(pieces, 1);
  SmallVector<Value> largest = b.createFor(
      subgroup, pieces, getNumSubgroups() * kWordsInFlight, b.i32(0),
      [&](Value first, ValueRange carried) {
        SmallVector<Value> pointers;
        // Behind the last piece, that one is read again.
        for (int64_t i : llvm::seq(kWordsInFlight))
          pointers.push_back(getSlotWord(
              b.minS(b.add(first, i * getNumSubgroups()), last), column));
        Value next = carried[0];
        for (Value word : createWaitForWords(b, pointers, kPosted))
          next = b.maxU(next, b.bitAnd(word, ~kPosted));
        return SmallVector<Value>{next};
      });
  b.store(
      largest[0],
      b.offsetBytes(pointer, b.mul(b.getSubgroup(), columns * sizeof(float))),
      sizeof(float));
  b.createBarrier();
}

void fp8moe::buildResidentStrips(QuantizeKernel &kernel,
                                 ResidentStripsTileAttr tile, Value slots) {
  kernel.b.getHooks().requestResidentBlocks(kernel.b.getKernel(),
                                            tile.getBlocks());
  ResidentStripBuilder(kernel, tile, slots).build();
}
