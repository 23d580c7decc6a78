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

#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/Quantize/QuantizeKernel.h"
#include "fp8moe/Tuning/Quantize/TwoPassTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

using two_pass::kTileBuffers;
using two_pass::kTilePack;
using two_pass::kTileVector;

namespace {

/// Distances in bytes that a lane can add in 32 bits.
constexpr int64_t kNearBytes = int64_t(1) << 31;
/// Input chunks that a thread loads before it uses the first of them.
constexpr int64_t kChunksInFlight = 4;

/// What a block goes over in one step of a loop over the rows of its strip.
/// Rows and columns are counted from those of the segment, or, if `origin` is
/// not null, from that row and from the strip's first column: then these are 0.
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

class TwoPassOuterBuilder {
public:
  TwoPassOuterBuilder(QuantizeKernel &kernel, const QuantizeConfig &config)
      : kernel(kernel), b(kernel.b), config(config) {}

  void build();

private:
  using Kind = QuantizeConfig::Kind;

  /// Columns of one thread in the passes over an input contiguous along them.
  int64_t getColumnsPerThread() const {
    return config.kind == Kind::Outer ? kOutputChunk : kTileVector;
  }
  /// Threads side by side on a row of the strip; the others take other rows.
  int64_t getThreadsPerRow() const {
    return config.columnsPerBlock / getColumnsPerThread();
  }
  int64_t getRowSlots() const { return config.threads / getThreadsPerRow(); }
  int64_t getNumSubgroups() const {
    return config.threads / b.getSubgroupSize();
  }
  Value getRowSlot() { return b.divU(b.getThread(), getThreadsPerRow()); }
  /// That of the first thread of the subgroup.
  Value getFirstRowSlot() {
    return b.mul(b.getUniformSubgroup(),
                 b.getSubgroupSize() / getThreadsPerRow());
  }
  /// The thread's first column within the strip.
  Value getColumnInStrip() {
    return b.mul(b.remU(b.getThread(), getThreadsPerRow()),
                 getColumnsPerThread());
  }
  IndexRange getColumns() { return {b.i64(0), kernel.sizes.parallel}; }
  /// Whether rows are counted within each step of a loop, in 32 bits. All
  /// threads of the block make the same steps then.
  bool countsInSteps() const { return b.getHooks().hasScalarRegisters(); }
  Step getStep(Value row);
  /// `plane`, whose rows and columns are counted as those of the step.
  Plane moveTo(const Step &step, Plane plane, Along along);
  /// `row` of a step, or the nearest one with data.
  Value clampToRows(const Step &step, Value row);
  /// `values`, which a subgroup computes from rows of a step from `row` on. The
  /// last step may have none for it: then, where subgroups know that, `others`.
  SmallVector<Value> ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others);

  // First pass: scales of the strip, to memory and to shared memory.
  void createScales();
  void createOuterScales();
  void createInnerScales();
  SmallVector<Value> createThreadMagnitudes();
  /// Scales of columns `first` ... of the strip, after a barrier.
  SmallVector<Value> loadScales(Value first, int64_t count);

  // Second pass.
  void quantizeOuter();
  void quantizeTransposed(TransposeTile &tile);
  /// Stores `words`, a chunk of a tile's row along the output's rows. One that
  /// is cut where the segment ends is moved, with what lies before it, until it
  /// ends there.
  void storeMovedRows(TransposeTile &tile, Value buffer, const TileChunk &at,
                      const Plane &output, Value words, IndexRange rows);
  void zeroFill();
  void zeroFill(IndexRange rows);
  /// Calls `body` with each column of the strip that the subgroup takes.
  void
  forEachSubgroupColumn(function_ref<void(Value inStrip, Value column)> body);

  QuantizeKernel &kernel;
  KernelBuilder &b;
  const QuantizeConfig &config;

  /// Shared memory: magnitudes by subgroup and column, scales by column.
  Value magnitudeMemory, scaleMemory;
  /// The strip at hand.
  SegmentView segment;
  Value firstColumn;
};

} // namespace

void TwoPassOuterBuilder::build() {
  int64_t columns = config.columnsPerBlock;
  two_pass::SharedMemory memory(config, b.getSubgroupSize());
  scaleMemory = b.allocateShared(memory.scales, "scales");
  if (memory.magnitudes)
    magnitudeMemory = b.allocateShared(memory.magnitudes, "magnitudes");
  std::optional<TransposeTile> tile;
  if (memory.transposedTiles) {
    tile.emplace(b, kTileVector, kTileBuffers);
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
      quantizeTransposed(*tile);
    else
      quantizeOuter();
    zeroFill();
  });
}

void TwoPassOuterBuilder::forEachSubgroupColumn(
    function_ref<void(Value, Value)> body) {
  b.createFor(b.getSubgroup(), b.i64(config.columnsPerBlock), getNumSubgroups(),
              [&](Value inStrip) {
                Value column = b.add(firstColumn, inStrip);
                b.createIf(b.less(column, kernel.sizes.parallel),
                           [&] { body(inStrip, column); });
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
    return b.zeroExtend(b.getI64Type(), b.truncate(b.getI32Type(), left));
  };
  Value zero = b.i64(0);
  // What cannot be loaded at once is moved to rows or columns before those of
  // the step.
  bool isInner = config.kind == Kind::InnerTransposing;
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
      pitch && *pitch < kNearBytes / (config.threads + 1) / plane.elementBytes;
  return plane;
}

Value TwoPassOuterBuilder::clampToRows(const Step &step, Value row) {
  Value last = b.sub(step.rows.high, 1);
  if (!step.origin)
    return b.clamp(row, step.rows.low, last);
  auto narrow = [&](Value number) {
    return b.truncate(b.getI32Type(), number);
  };
  return b.zeroExtend(b.getI64Type(), b.minU(narrow(row), narrow(last)));
}

SmallVector<Value>
TwoPassOuterBuilder::ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others) {
  if (!step.origin)
    return values();
  return b.createIf(b.less(row, step.rows.high), others.getTypes(), values,
                    [&] { return SmallVector<Value>(others); });
}

//===----------------------------------------------------------------------===//
// First pass
//===----------------------------------------------------------------------===//

void TwoPassOuterBuilder::createScales() {
  // Threads may still read the scales of the block's previous strip.
  b.createBarrier();
  if (config.kind == Kind::InnerTransposing)
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
      b.store(scale, b.offsetBytes(scaleMemory, b.mul(inStrip, sizeof(float))),
              sizeof(float));
    });
  });
}

/// Magnitudes of the thread's columns over the rows of its slot, packed as in
/// the input.
SmallVector<Value> TwoPassOuterBuilder::createThreadMagnitudes() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(getColumnsPerThread());
  int64_t rowsInFlight = kChunksInFlight / chunks;
  Value column = b.add(firstColumn, getColumnInStrip());
  // Columns past the last one repeat it, but a thread needs one of its own.
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

void TwoPassOuterBuilder::createOuterScales() {
  int64_t columns = config.columnsPerBlock;
  // Threads of a subgroup that have the same columns combine by shuffles.
  SmallVector<Value> bits;
  for (Value chunk : createThreadMagnitudes()) {
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
  b.createBarrier();

  // One thread a column combines the subgroups.
  b.createIf(b.less(b.getThread(), columns), [&] {
    Value offset = b.mul(b.getThread(), sizeof(float));
    Value pointer = b.offsetBytes(magnitudeMemory, offset);
    Value magnitude;
    for (int64_t i : llvm::seq(getNumSubgroups())) {
      Value part = b.load(b.getI32Type(),
                          b.offsetBytes(pointer, i * columns * sizeof(float)),
                          sizeof(float));
      magnitude = magnitude ? b.maxU(magnitude, part) : part;
    }
    Value scale = kernel.math.createScale(magnitude);
    b.store(scale, b.offsetBytes(scaleMemory, offset), sizeof(float));
    Value column = b.add(firstColumn, b.getThread());
    b.createIf(b.less(column, kernel.sizes.parallel),
               [&] { kernel.storeScale(segment, column, scale); });
  });
}

SmallVector<Value> TwoPassOuterBuilder::loadScales(Value first, int64_t count) {
  Value pointer = b.offsetBytes(scaleMemory, b.mul(first, sizeof(float)));
  SmallVector<Value> scales;
  for (int64_t i = 0; i < count; i += 4) {
    Value words =
        b.load(b.getWordsType(), b.offsetBytes(pointer, i * sizeof(float)),
               kVectorBytes);
    for (Value word : b.unpackWords(words))
      scales.push_back(b.bitcast(b.getF32Type(), word));
  }
  return scales;
}

//===----------------------------------------------------------------------===//
// Second pass
//===----------------------------------------------------------------------===//

/// The tile before is still in the other buffer: only the last step of a
/// segment has chunks that are cut, and the next strip begins with a barrier.
void TwoPassOuterBuilder::storeMovedRows(TransposeTile &tile, Value buffer,
                                         const TileChunk &at,
                                         const Plane &output, Value words,
                                         IndexRange rows) {
  constexpr int64_t kChunks = TransposeTile::kRowBytes / kOutputChunk;
  auto store = [&] { storeChunk(b, output, at.first, at.other, words, rows); };
  Value start = b.sub(rows.high, kOutputChunk);
  auto storeMoved = [&] {
    // Chunks of a row through both buffers, which follow each other.
    Value before = b.bitAnd(b.add(b.add(b.mul(buffer, kChunks), at.chunk), -1),
                            kTileBuffers * kChunks - 1);
    before = tile.loadChunk(b.divU(before, kChunks), at.row,
                            b.remU(before, kChunks));
    // It begins in the chunk before, `at.first` less 16.
    Value offset =
        b.truncate(b.getI32Type(), b.add(b.sub(start, at.first), kOutputChunk));
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

void TwoPassOuterBuilder::quantizeOuter() {
  Plane input = kernel.getInputPlane(segment, Along::Columns);
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t chunks = kernel.getInputChunks(kOutputChunk);
  SmallVector<Value> scales = loadScales(getColumnInStrip(), kOutputChunk);
  Value column = b.add(firstColumn, getColumnInStrip());
  Value hasColumns = b.less(column, kernel.sizes.parallel);
  Value end = b.select(hasColumns, segment.rows.high, 0);
  b.createFor(b.add(segment.rows.low, getRowSlot()), end, getRowSlots(),
              [&](Value row) {
                SmallVector<Value> values;
                for (Value chunk :
                     loadChunks(b, input, column, chunks, row, getColumns()))
                  llvm::append_range(values, kernel.math.unpackValues(chunk));
                Value words =
                    b.packWords(kernel.math.createQuantizeOwn(values, scales));
                storeChunk(b, output, column, row, words, getColumns());
              });
}

/// Rows of the tile are the dimension along which the input is contiguous; its
/// bytes lie along the dimension of the output.
void TwoPassOuterBuilder::quantizeTransposed(TransposeTile &tile) {
  bool fromColumns = config.kind == Kind::OuterTransposing;
  Along inputAlong = fromColumns ? Along::Columns : Along::Rows;
  Along outputAlong = fromColumns ? Along::Rows : Along::Columns;
  Plane input = kernel.getInputPlane(segment, inputAlong);
  Plane output = kernel.getOutputPlane(segment, outputAlong);
  int64_t rowsPerTile = fromColumns ? TransposeTile::kRowBytes : tile.getRows();
  int64_t chunks = kernel.getInputChunks(kTileVector);

  // The thread's part of a tile: kTileVector elements along the input from
  // `vectorInTile` on, in each of kTilePack positions from `packInTile` on.
  Value vectorInTile = tile.getWriteRow();
  Value packInTile = b.mul(tile.getWriteWord(), kTilePack);
  SmallVector<Value> scales = fromColumns
                                  ? loadScales(vectorInTile, kTileVector)
                                  : loadScales(packInTile, kTilePack);

  Value firstRow = kernel.getFirstChunk(segment.rows);
  Value isEmpty = b.lessEqual(segment.rows.high, segment.rows.low);
  Value endRow = b.select(isEmpty, firstRow, segment.rows.high);
  b.createFor(
      firstRow, endRow, rowsPerTile, b.i64(0),
      [&](Value row, ValueRange carried) {
        Step step = getStep(row);
        Plane from = moveTo(step, input, inputAlong);
        Plane to = moveTo(step, output, outputAlong);
        IndexRange inputRange = fromColumns ? step.columns : step.rows;
        IndexRange outputRange = fromColumns ? step.rows : step.columns;
        Value vectorOrigin = fromColumns ? step.firstColumn : step.firstRow;
        Value packOrigin = fromColumns ? step.firstRow : step.firstColumn;
        Value pack = b.add(packOrigin, packInTile);
        SmallVector<Value> others;
        for (int64_t i : llvm::seq(kTilePack)) {
          Value other = b.add(pack, i);
          others.push_back(fromColumns ? clampToRows(step, other)
                                       : b.clamp(other, outputRange.low,
                                                 b.sub(outputRange.high, 1)));
        }
        auto quantize = [&] {
          SmallVector<Value> values;
          for (Value chunk :
               loadChunks(b, from, b.add(vectorOrigin, vectorInTile), chunks,
                          others, inputRange))
            llvm::append_range(values, kernel.math.unpackValues(chunk));

          // Word i holds element i of each of the kTilePack vectors.
          SmallVector<Value> packed, packedScales;
          for (int64_t i : llvm::seq(kTileVector))
            for (int64_t j : llvm::seq(kTilePack)) {
              packed.push_back(values[j * kTileVector + i]);
              packedScales.push_back(scales[fromColumns ? i : j]);
            }
          return kernel.math.createQuantizeOwn(packed, packedScales);
        };
        Value subgroupRow =
            fromColumns ? b.mul(tile.getFirstWriteWord(), kTilePack) : b.i64(0);
        tile.transpose(
            carried[0],
            ifRows(step, subgroupRow, quantize,
                   SmallVector<Value>(kTileVector, b.i32(0))),
            [&](Value rowInTile, Value chunk, Value words) {
              Value other = b.add(vectorOrigin, rowInTile);
              Value inside = b.bitAnd(b.lessEqual(inputRange.low, other),
                                      b.less(other, inputRange.high));
              b.createIf(inside, [&] {
                Value first = b.add(packOrigin, b.mul(chunk, kOutputChunk));
                if (fromColumns && to.isUnaligned())
                  storeMovedRows(tile, carried[0],
                                 {rowInTile, chunk, first, other}, to, words,
                                 outputRange);
                else
                  storeChunk(b, to, first, other, words, outputRange);
              });
            });
        return SmallVector<Value>{b.bitXor(carried[0], 1)};
      });
}

void TwoPassOuterBuilder::zeroFill() {
  if (!kernel.problem.jagged)
    return;
  IndexRange rows = segment.zeroRows;
  // Mostly there are none, which costs nothing where a subgroup knows it.
  if (b.getHooks().hasScalarRegisters())
    b.createIf(b.less(rows.low, rows.high), [&] { zeroFill(rows); });
  else
    zeroFill(rows);
}

void TwoPassOuterBuilder::zeroFill(IndexRange rows) {
  if (config.kind == Kind::OuterTransposing) {
    Plane output = kernel.getOutputPlane(segment, Along::Rows);
    forEachSubgroupColumn([&](Value, Value column) {
      kernel.createSliceZeroFill(output, column, rows,
                                 kernel.getSubgroupTeam());
    });
    return;
  }
  Plane output = kernel.getOutputPlane(segment, Along::Columns);
  int64_t threadsPerRow = config.columnsPerBlock / kOutputChunk;
  Value column = b.add(
      firstColumn, b.mul(b.remU(b.getThread(), threadsPerRow), kOutputChunk));
  Value slot = b.divU(b.getThread(), threadsPerRow);
  b.createFor(
      b.add(rows.low, slot), rows.high, config.threads / threadsPerRow,
      [&](Value row) { zeroChunk(b, output, column, row, getColumns()); });
}

void fp8moe::buildTwoPassOuter(QuantizeKernel &kernel,
                               const QuantizeConfig &config) {
  TwoPassOuterBuilder(kernel, config).build();
}
