//===- TwoPassOuter.cpp - A block quantizes a strip -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block takes a strip of columns of one segment. It computes
// the magnitude of each column, keeps the scales in shared memory, and goes
// over the rows once more to quantize. When input and output are contiguous in
// different dimensions, the second pass transposes tiles of FP8 bytes in
// shared memory.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/TransposeTile.h"
#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTilePack;
using two_pass::kTileVector;

/// Input chunks that a thread loads before it uses the first of them.
static constexpr int64_t kChunksInFlight = 4;
/// Upper bound on byte offsets that a lane computes in 32 bits.
static constexpr int64_t kNearBytes = int64_t(1) << 31;

namespace {
/// The rows and columns of one step of a block's loop over the rows of its
/// strip. Both are counted from those of the segment, or, if `origin` is not
/// null, from that row and from the strip's first column: then these are 0.
struct Step {
  Value origin, firstRow, firstColumn;
  /// Rows with data, and columns.
  IndexRange rows, columns;
};

/// A chunk of a tile's row, and its place in the output.
struct TileChunk {
  Value row, chunk;
  Value first, other;
};

/// State of a transposed tile in a step: its matrices as the step sees them,
/// and where the thread's elements are.
struct TransposedStep {
  Step step;
  Plane from, to;
  IndexRange inputRange, outputRange;
  /// The first element along the input, and across it.
  Value vectorOrigin, packOrigin;
};

/// Builds the kernel of a kind other than Inner: a block takes a strip of
/// columns of one segment.
class TwoPassOuterBuilder {
public:
  TwoPassOuterBuilder(QuantizeKernel &kernel, QuantizeKind kind,
                      TwoPassTileAttr tile)
      : kernel(kernel), b(kernel.b), kind(kind), columns(tile.getColumns()),
        threads(tile.getThreads()) {}

  void build();

private:
  // First pass: scales of the strip, to memory and to shared memory.
  void createScales();
  void createOuterScales();
  void createInnerScales();
  SmallVector<Value> createThreadMagnitudes();
  /// Combines magnitudes of the thread's columns, packed as in the input, over
  /// a subgroup, and stores them to shared memory.
  void storeMagnitudes(ArrayRef<Value> chunks);

  // Second pass.
  void quantizeOuter();
  void quantizeTransposed();

  /// Columns of one thread in the passes over an input contiguous along them.
  int64_t getColumnsPerThread() const {
    return kind == QuantizeKind::Outer ? kOutputChunk : two_pass::kTileVector;
  }
  /// Threads side by side on a row of the strip; the others take other rows.
  int64_t getThreadsPerRow() const { return columns / getColumnsPerThread(); }
  int64_t getRowSlots() const { return threads / getThreadsPerRow(); }
  int64_t getNumSubgroups() const { return threads / b.getSubgroupSize(); }
  Value getRowSlot() { return b.divU(b.getThread(), getThreadsPerRow()); }
  /// Returns the row slot of the subgroup's first thread.
  Value getFirstRowSlot() {
    return b.mul(b.getUniformSubgroup(),
                 b.getSubgroupSize() / getThreadsPerRow());
  }
  /// Returns the thread's first column within the strip.
  Value getColumnInStrip() {
    return b.mul(b.remU(b.getThread(), getThreadsPerRow()),
                 getColumnsPerThread());
  }
  IndexRange getColumns() { return {b.i64(0), kernel.sizes.parallel}; }
  /// Whether rows are counted within each step of a loop, in 32 bits. All
  /// threads of the block make the same steps then.
  bool countsInSteps() const {
    return b.getTarget().has(Feature::ScalarRegisters);
  }
  Step getStep(Value row);
  /// Returns `plane` with rows and columns counted as in the step.
  Plane moveTo(const Step &step, Plane plane, Along along);
  /// Returns `row` of a step, clamped to the rows with data.
  Value clampToRows(const Step &step, Value row);
  /// Returns `values`, which a subgroup computes from a step's rows from `row`
  /// on. Where subgroups know that the last step has no such rows, returns
  /// `others`.
  SmallVector<Value> ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others);
  /// Calls `body` for each of the subgroup's columns of the strip.
  void
  forEachSubgroupColumn(function_ref<void(Value inStrip, Value column)> body);

  // Tiles that are transposed. Rows of one are the dimension along which the
  // input is contiguous; its bytes lie along the dimension of the output.
  bool isFromColumns() const { return kind == QuantizeKind::OuterTransposing; }
  Along getInputAlong() const {
    return isFromColumns() ? Along::Columns : Along::Rows;
  }
  Along getOutputAlong() const {
    return isFromColumns() ? Along::Rows : Along::Columns;
  }
  TransposedStep getTransposed(const Step &step, const Plane &input,
                               const Plane &output);
  /// Returns the thread's kTilePack indices across the input's contiguous
  /// dimension, clamped to the data.
  SmallVector<Value> getOthers(const TransposedStep &at);
  /// Returns the subgroup's first row of a tile, relative to the step.
  Value getSubgroupRow();
  SmallVector<Value> loadTile(const TransposedStep &at, ArrayRef<Value> others);
  /// Quantizes the thread's loaded chunks, and returns its words of the tile.
  SmallVector<Value> quantizeTile(ArrayRef<Value> chunks,
                                  ArrayRef<Value> scales);
  /// Stores the tile of the threads' `words` to the output, transposed through
  /// `buffer`.
  void storeTile(Value buffer, ArrayRef<Value> words, const TransposedStep &at);

  /// Stores `words`, a chunk of a tile's row, along the output's rows. A chunk
  /// past the segment's end is shifted back to end with the segment, and takes
  /// its first elements from the chunk before.
  void storeMovedRows(Value buffer, const TileChunk &at, const Plane &output,
                      Value words, IndexRange rows);
  void zeroFill();
  void zeroFill(IndexRange rows);

  QuantizeKernel &kernel;
  KernelBuilder &b;
  const QuantizeKind kind;
  /// Columns of a strip, and threads of a block.
  const int64_t columns, threads;

  /// Shared memory: magnitudes of each subgroup and column, and scales of each
  /// column. Tiles only in transposing kinds.
  Value magnitudeMemory, scaleMemory;
  std::optional<TransposeTile> tile;
  /// The thread's part of a tile: kTileVector elements along the input from
  /// `vectorInTile` on, in each of kTilePack positions from `packInTile` on.
  Value vectorInTile, packInTile;
  /// The current strip.
  SegmentView segment;
  Value firstColumn;
};
} // namespace

void TwoPassOuterBuilder::build() {
  two_pass::SharedMemory memory(kind, columns, threads, b.getSubgroupSize());
  scaleMemory = b.allocateShared(memory.scales, "scales");
  if (memory.magnitudes)
    magnitudeMemory = b.allocateShared(memory.magnitudes, "magnitudes");
  if (memory.transposedTiles) {
    tile.emplace(b, kTileVector, two_pass::kTileBuffers);
    assert(tile->getBytes() == memory.transposedTiles &&
           "occupancy was predicted for other tiles");
  }

  Value strips = b.ceilDiv(kernel.sizes.parallel, columns);
  Value workTiles = b.mul(kernel.getNumSegments(), strips);
  b.forEachWorkTile(workTiles, [&](Value workTile) {
    segment = kernel.createSegment(b.divU(workTile, strips));
    firstColumn = b.mul(b.remU(workTile, strips), columns);
    createScales();
    if (kernel.problem.scalesOnly)
      return;
    if (tile)
      quantizeTransposed();
    else
      quantizeOuter();
    zeroFill();
  });
}

//===----------------------------------------------------------------------===//
// First pass
//===----------------------------------------------------------------------===//

void TwoPassOuterBuilder::createScales() {
  // Threads may still read the scales of the block's previous strip.
  b.createBarrier();
  if (kind == QuantizeKind::InnerTransposing)
    createInnerScales();
  else
    createOuterScales();
  b.createBarrier();
}

void TwoPassOuterBuilder::createInnerScales() {
  Plane input = kernel.getInputPlane(segment, Along::Rows);
  forEachSubgroupColumn([&](Value inStrip, Value column) {
    Value scale = kernel.math.createScale(
        kernel.reduceSubgroup(kernel.createSliceMagnitude(
            input, column, segment.rows, kernel.getSubgroupTeam())));
    b.createIf(b.equal(b.getLane(), 0), [&] {
      kernel.storeScale(segment, column, scale);
      b.storeWord(scale,
                  b.offsetBytes(scaleMemory, b.mul(inStrip, sizeof(float))));
    });
  });
}

/// Returns the magnitudes of the thread's columns over the rows of its slot,
/// packed as in the input.
SmallVector<Value> TwoPassOuterBuilder::createThreadMagnitudes() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(getColumnsPerThread());
  int64_t rowsInFlight = kChunksInFlight / chunks;
  Value column = b.add(firstColumn, getColumnInStrip());
  // Columns past the last one are clamped to it. A thread whose first column is
  // past it has no work.
  Value hasColumns = b.less(column, kernel.sizes.parallel);
  Value slot = getRowSlot(), begin = segment.rows.low;
  Value end = segment.rows.high;
  int64_t rowsApart = 1;
  if (countsInSteps()) {
    column = b.select(hasColumns, getColumnInStrip(), 0);
    slot = b.mul(slot, rowsInFlight);
  } else {
    end = b.select(hasColumns, end, 0);
    begin = b.add(begin, slot);
    slot = b.i64(0);
    rowsApart = getRowSlots();
  }
  SmallVector<Value> zero(chunks, b.zeroWords());
  return b.createFor(
      begin, end, getRowSlots() * rowsInFlight, zero,
      [&](Value row, ValueRange carried) {
        Step step = getStep(row);
        auto enlarge = [&] {
          SmallVector<Value> rows;
          for (int64_t i : llvm::seq(rowsInFlight))
            rows.push_back(clampToRows(
                step, b.add(b.add(step.firstRow, slot), i * rowsApart)));
          SmallVector<Value> largest(carried);
          for (auto [i, chunk] : llvm::enumerate(
                   loadChunks(b, moveTo(step, input, Along::Columns), column,
                              chunks, rows, step.columns)))
            largest[i % chunks] =
                kernel.math.createAbsMax(largest[i % chunks], chunk);
          return largest;
        };
        return ifRows(step, b.mul(getFirstRowSlot(), rowsInFlight), enlarge,
                      carried);
      });
}

void TwoPassOuterBuilder::storeMagnitudes(ArrayRef<Value> chunks) {
  // Threads of a subgroup that have the same columns combine by shuffles.
  SmallVector<Value> bits;
  for (Value chunk : chunks) {
    for (int64_t mask = getThreadsPerRow(); mask < b.getSubgroupSize();
         mask *= 2) {
      SmallVector<Value> own = b.unpackWords(chunk), other = own;
      for (auto [word, otherWord] : llvm::zip_equal(own, other))
        std::tie(word, otherWord) = b.exchange(word, mask);
      chunk = kernel.math.createMax(b.packWords(own), b.packWords(other));
    }
    llvm::append_range(bits, kernel.math.unpackMagnitudes(chunk));
  }
  b.createIf(b.less(b.getLane(), getThreadsPerRow()), [&] {
    Value element = b.add(b.mul(b.getSubgroup(), columns), getColumnInStrip());
    Value pointer =
        b.offsetBytes(magnitudeMemory, b.mul(element, sizeof(float)));
    for (size_t i = 0; i < bits.size(); i += 4)
      b.store(b.packWords(ArrayRef(bits).slice(i, 4)),
              b.offsetBytes(pointer, i * sizeof(float)), kVectorBytes);
  });
}

void TwoPassOuterBuilder::createOuterScales() {
  storeMagnitudes(createThreadMagnitudes());
  b.createBarrier();

  // One thread a column combines the subgroups.
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value offset = b.mul(b.getThread(), sizeof(float));
    Value pointer = b.offsetBytes(magnitudeMemory, offset), magnitude;
    for (int64_t i : llvm::seq(getNumSubgroups())) {
      Value part =
          b.loadWord(b.offsetBytes(pointer, i * columns * sizeof(float)));
      magnitude = magnitude ? b.maxU(magnitude, part) : part;
    }
    Value scale = kernel.math.createScale(magnitude);
    b.storeWord(scale, b.offsetBytes(scaleMemory, offset));
    Value column = b.add(firstColumn, b.getThread());
    b.createIf(b.less(column, kernel.sizes.parallel),
               [&] { kernel.storeScale(segment, column, scale); });
  });
}

//===----------------------------------------------------------------------===//
// Second pass
//===----------------------------------------------------------------------===//

void TwoPassOuterBuilder::quantizeOuter() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(kOutputChunk);
  SmallVector<Value> scales =
      loadSharedScales(b, scaleMemory, getColumnInStrip(), kOutputChunk);
  Value column = b.add(firstColumn, getColumnInStrip());
  Value hasColumns = b.less(column, kernel.sizes.parallel);
  Value end = b.select(hasColumns, segment.rows.high, 0);
  b.createFor(b.add(segment.rows.low, getRowSlot()), end, getRowSlots(),
              [&](Value row) {
                Value words = kernel.math.quantizeChunks(
                    loadChunks(b, input, column, chunks, row, getColumns()),
                    scales);
                storeChunk(b, output, column, row, words, getColumns());
              });
}

void TwoPassOuterBuilder::quantizeTransposed() {
  Plane input = kernel.getInputPlane(segment, getInputAlong());
  Plane output = kernel.getOutputPlane(segment, getOutputAlong());
  int64_t rowsPerTile =
      isFromColumns() ? TransposeTile::kRowBytes : tile->getRows();
  vectorInTile = tile->getWriteRow();
  packInTile = b.mul(tile->getWriteWord(), kTilePack);
  SmallVector<Value> scales = loadSharedScales(
      b, scaleMemory, isFromColumns() ? vectorInTile : packInTile,
      isFromColumns() ? kTileVector : kTilePack);

  Value firstRow = kernel.getFirstChunk(segment.rows);
  Value isEmpty = b.lessEqual(segment.rows.high, segment.rows.low);
  Value endRow = b.select(isEmpty, firstRow, segment.rows.high);
  b.createFor(firstRow, endRow, rowsPerTile, b.i64(0),
              [&](Value row, Value buffer) {
                TransposedStep at = getTransposed(getStep(row), input, output);
                SmallVector<Value> others = getOthers(at);
                auto quantize = [&] {
                  return quantizeTile(loadTile(at, others), scales);
                };
                storeTile(buffer,
                          ifRows(at.step, getSubgroupRow(), quantize,
                                 SmallVector<Value>(kTileVector, b.i32(0))),
                          at);
                return b.bitXor(buffer, 1);
              });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Step TwoPassOuterBuilder::getStep(Value row) {
  if (!countsInSteps())
    return {Value(), row, firstColumn, segment.rows, getColumns()};
  // No step has as many rows or columns as 31 bits count.
  auto countLeft = [&](Value end, Value origin) {
    Value left =
        b.minS(b.sub(end, origin), std::numeric_limits<int32_t>::max());
    return b.widen(b.narrow(left));
  };
  Value zero = b.i64(0);
  // A chunk that cannot be loaded at once is moved to rows or columns before
  // those of the step.
  bool isInner = kind == QuantizeKind::InnerTransposing;
  return {row,
          zero,
          zero,
          {isInner ? b.sub(segment.rows.low, row) : zero,
           countLeft(segment.rows.high, row)},
          {b.sub(zero, firstColumn),
           countLeft(kernel.sizes.parallel, firstColumn)}};
}

Plane TwoPassOuterBuilder::moveTo(const Step &step, Plane plane, Along along) {
  if (!step.origin)
    return plane;
  plane.base = along == Along::Rows
                   ? createElementPointer(b, plane, step.origin, firstColumn)
                   : createElementPointer(b, plane, firstColumn, step.origin);
  // A tile is at most as many rows and columns as a block has threads.
  std::optional<int64_t> pitch = getConstantIntValue(plane.otherStride);
  plane.isNear =
      pitch && *pitch < kNearBytes / (threads + 1) / plane.elementBytes;
  return plane;
}

Value TwoPassOuterBuilder::clampToRows(const Step &step, Value row) {
  Value last = b.sub(step.rows.high, 1);
  if (!step.origin)
    return b.clamp(row, step.rows.low, last);
  return b.widen(b.minU(b.narrow(row), b.narrow(last)));
}

SmallVector<Value>
TwoPassOuterBuilder::ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others) {
  if (!step.origin)
    return values();
  return b.createIf(b.less(row, step.rows.high), values,
                    [&] { return SmallVector<Value>(others); });
}

void TwoPassOuterBuilder::forEachSubgroupColumn(
    function_ref<void(Value, Value)> body) {
  b.createFor(b.getSubgroup(), b.i64(columns), getNumSubgroups(),
              [&](Value inStrip) {
                Value column = b.add(firstColumn, inStrip);
                b.createIf(b.less(column, kernel.sizes.parallel),
                           [&] { body(inStrip, column); });
              });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

TransposedStep TwoPassOuterBuilder::getTransposed(const Step &step,
                                                  const Plane &input,
                                                  const Plane &output) {
  bool fromColumns = isFromColumns();
  TransposedStep at;
  at.step = step;
  at.from = moveTo(step, input, getInputAlong());
  at.to = moveTo(step, output, getOutputAlong());
  at.inputRange = fromColumns ? step.columns : step.rows;
  at.outputRange = fromColumns ? step.rows : step.columns;
  at.vectorOrigin = fromColumns ? step.firstColumn : step.firstRow;
  at.packOrigin = fromColumns ? step.firstRow : step.firstColumn;
  return at;
}

SmallVector<Value> TwoPassOuterBuilder::getOthers(const TransposedStep &at) {
  Value pack = b.add(at.packOrigin, packInTile);
  SmallVector<Value> others;
  for (int64_t i : llvm::seq(kTilePack)) {
    Value other = b.add(pack, i);
    others.push_back(isFromColumns() ? clampToRows(at.step, other)
                                     : b.clamp(other, at.outputRange.low,
                                               b.sub(at.outputRange.high, 1)));
  }
  return others;
}

Value TwoPassOuterBuilder::getSubgroupRow() {
  return isFromColumns() ? b.mul(tile->getFirstWriteWord(), kTilePack)
                         : b.i64(0);
}

SmallVector<Value> TwoPassOuterBuilder::loadTile(const TransposedStep &at,
                                                 ArrayRef<Value> others) {
  return loadChunks(b, at.from, b.add(at.vectorOrigin, vectorInTile),
                    kernel.getInputChunks(kTileVector), others, at.inputRange);
}

SmallVector<Value> TwoPassOuterBuilder::quantizeTile(ArrayRef<Value> chunks,
                                                     ArrayRef<Value> scales) {
  SmallVector<Value> values = kernel.math.unpackValues(chunks);
  // Word i holds element i of each of the kTilePack vectors.
  SmallVector<Value> packed, packedScales;
  for (int64_t i : llvm::seq(kTileVector))
    for (int64_t j : llvm::seq(kTilePack)) {
      packed.push_back(values[j * kTileVector + i]);
      packedScales.push_back(scales[isFromColumns() ? i : j]);
    }
  return kernel.math.createQuantizeOwn(packed, packedScales);
}

void TwoPassOuterBuilder::storeTile(Value buffer, ArrayRef<Value> words,
                                    const TransposedStep &at) {
  tile->transpose(
      buffer, words, [&](Value rowInTile, Value chunk, Value words) {
        Value other = b.add(at.vectorOrigin, rowInTile);
        Value inside = b.bitAnd(b.lessEqual(at.inputRange.low, other),
                                b.less(other, at.inputRange.high));
        b.createIf(inside, [&] {
          Value first = b.add(at.packOrigin, b.mul(chunk, kOutputChunk));
          if (isFromColumns() && at.to.isUnaligned())
            storeMovedRows(buffer, {rowInTile, chunk, first, other}, at.to,
                           words, at.outputRange);
          else
            storeChunk(b, at.to, first, other, words, at.outputRange);
        });
      });
}

/// The tile before is still in the other buffer: only the last step of a
/// segment has chunks that are cut, and the next strip begins with a barrier.
void TwoPassOuterBuilder::storeMovedRows(Value buffer, const TileChunk &at,
                                         const Plane &output, Value words,
                                         IndexRange rows) {
  constexpr int64_t kChunks = TransposeTile::kRowBytes / kOutputChunk;
  auto store = [&] { storeChunk(b, output, at.first, at.other, words, rows); };
  Value start = b.sub(rows.high, kOutputChunk);
  auto storeMoved = [&] {
    // Chunks of a row through both buffers, which follow each other.
    Value before = b.bitAnd(b.add(b.add(b.mul(buffer, kChunks), at.chunk), -1),
                            two_pass::kTileBuffers * kChunks - 1);
    before = tile->loadChunk(b.divU(before, kChunks), at.row,
                             b.remU(before, kChunks));
    // `moved` begins `offset` bytes into the chunk before, which starts at
    // `at.first` - kOutputChunk.
    Value offset = b.narrow(b.add(b.sub(start, at.first), kOutputChunk));
    Value moved = createWordsAt(b, before, words, offset);
    b.store(moved, createElementPointer(b, output, start, at.other),
            output.vectorAlignment);
  };
  Value length = b.sub(segment.rows.high, segment.rows.low);
  b.createIf(b.lessEqual(at.first, start), store, [&] {
    b.createIf(b.less(at.first, rows.high), [&] {
      b.createIf(b.lessEqual(b.i64(kOutputChunk), length), storeMoved, store);
    });
  });
}

void TwoPassOuterBuilder::zeroFill() {
  if (!kernel.problem.jagged)
    return;
  IndexRange rows = segment.zeroRows;
  // Mostly there are none, which costs nothing where a subgroup knows it.
  if (b.getTarget().has(Feature::ScalarRegisters))
    b.createIf(b.less(rows.low, rows.high), [&] { zeroFill(rows); });
  else
    zeroFill(rows);
}

void TwoPassOuterBuilder::zeroFill(IndexRange rows) {
  if (kind == QuantizeKind::OuterTransposing) {
    Plane output = kernel.getOutputPlane(segment, Along::Rows);
    forEachSubgroupColumn([&](Value, Value column) {
      kernel.createSliceZeroFill(output, column, rows,
                                 kernel.getSubgroupTeam());
    });
    return;
  }
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t threadsPerRow = columns / kOutputChunk;
  Value column = b.add(
      firstColumn, b.mul(b.remU(b.getThread(), threadsPerRow), kOutputChunk));
  Value slot = b.divU(b.getThread(), threadsPerRow);
  b.createFor(
      b.add(rows.low, slot), rows.high, threads / threadsPerRow,
      [&](Value row) { zeroChunk(b, output, column, row, getColumns()); });
}

void fp8moe::buildTwoPassOuter(QuantizeKernel &kernel, TwoPassTileAttr tile,
                               QuantizeKind kind) {
  TwoPassOuterBuilder(kernel, kind, tile).build();
}
