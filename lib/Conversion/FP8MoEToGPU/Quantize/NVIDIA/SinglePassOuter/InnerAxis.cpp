//===- InnerAxis.cpp - Quantizes rows beside the tiles of columns ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The blocks of the grid take rows in turn. A warp takes a whole row: it waits
// for the row in shared memory, goes over it twice, and then loads the row that
// the stage is for next. So a stage needs no mbarrier "empty": who reads it
// fills it again. The warp that waits for that row may be another one, and may
// come before the load begins, when a parity would mean an earlier row; so the
// number of the row is there to be read.
//
// Rows and tiles read the same tensor, each all of it. What one has read the
// other finds in the L2 cache if it comes soon enough; so neither goes far
// ahead. Each says what it is about to load, R or T as a row, before it waits:
//
//   a warp of rows   while T < its row - lead; R is the largest such row
//   the producer     while R < T - lead
//
// Not both at once: T < R - lead and R < T - lead have no solution. So in every
// block rows or tiles go on. Rows wait for nothing else than rows that were
// loaded before, and who has loaded everything is ahead of all. Hence the
// producer waits a bounded time, and blocks wait for each other's tiles as they
// do without rows.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/AtomicWords.h"
#include "FP8MoEToGPU/NVIDIA/BoundedWait.h"
#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Kernel.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Chunks of a row that a lane loads before it uses the first of them.
static constexpr int64_t kChunksAtOnce = 4;
/// Chunks of a divided row that a lane can hold until it is converted. Products
/// of longer ones go back to shared memory.
static constexpr int64_t kHeldChunks = 8;

//===----------------------------------------------------------------------===//
// How far tiles are
//===----------------------------------------------------------------------===//

Value SinglePassOuterKernel::getRowOfTile(Value index, Value count, Value start,
                                          Value length) {
  if (!tile.hasRows())
    return b.i32(0);
  auto toFloat = [&](Value value) -> Value {
    return arith::SIToFPOp::create(b, b.getF32Type(), value);
  };
  Value part =
      arith::DivFOp::create(b, toFloat(index), toFloat(b.maxS(count, 1)));
  Value rows = arith::MulFOp::create(b, part, toFloat(length));
  return b.add(start,
               arith::FPToSIOp::create(b, b.getI32Type(), rows).getResult());
}

void SinglePassOuterKernel::keepPace(Value own, Value row, Value other) {
  announce(own, row);
  Value least = b.sub(row, getRowLead());
  createBoundedWait(
      b, WaitClock::Cycles, {},
      [&](ValueRange) { return b.less(loadRelaxed(b, other), least); },
      [&](ValueRange) { return SmallVector<Value>(); });
}

void SinglePassOuterKernel::advanceTiles(Value row) {
  if (!tile.hasRows())
    return;
  keepPace(getTileProgress(), row, getRowProgress());
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
class RowsBuilder {
public:
  RowsBuilder(SinglePassOuterKernel &kernel, Value warp)
      : k(kernel), b(kernel.b), warp(warp),
        laneChunk(b.mul(k.lane, kChunkBytes)) {}

  void build();

private:
  /// Output bytes of a chunk.
  int64_t getOutputBytes() const { return kChunkBytes / k.getInputBytes(); }
  Value getRow(Value item) { return b.add(k.block, b.mul(item, k.numBlocks)); }
  void loadRow(Value item);
  void handle(Value item, Value group);

  using ChunkBody =
      function_ref<SmallVector<Value>(Value chunk, Value byte, ValueRange)>;

  int64_t getLineBytes() const { return kChunkBytes * b.getSubgroupSize(); }
  /// Whether a chunk of each lane is in line number `line` of the row.
  bool isWhole(int64_t line) const {
    return (line + 1) * getLineBytes() <= k.tile.rowBytes;
  }
  int64_t countHeld() const {
    return llvm::divideCeil(k.tile.rowBytes, getLineBytes());
  }
  bool holdsRow() const { return countHeld() <= kHeldChunks; }
  SmallVector<Value> loadProducts(Value row, ArrayRef<Value> factors);
  Value loadGroup(Value item);
  SmallVector<Value> loadFactors(Value factors, Value first, int64_t lines);
  SmallVector<Value> takeLines(Value row, Value first, int64_t count,
                               ArrayRef<Value> factors, ValueRange init,
                               ChunkBody body);
  SmallVector<Value> forEachChunk(ValueRange init, Value row, Value factors,
                                  ArrayRef<Value> firstFactors, ChunkBody body);
  Value getMagnitude(Value largest);
  /// The FP8 bytes of a chunk.
  Value convert(Value chunk, Value scale);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value warp;
  Value laneChunk;
};
} // namespace

/// By one thread: row number `item` of the block to its stage.
void RowsBuilder::loadRow(Value item) {
  Value stage = b.remU(item, k.tile.rowStages);
  Value row = getRow(item);
  // Another warp may be behind this one, and say so later: the largest counts.
  k.keepPace(k.getRowProgress(), row, k.getTileProgress());
  Value barrier = k.getRowBarrier(stage);
  Value bytes = b.i32(k.tile.rowBytes);
  createArriveExpecting(b, barrier, bytes);
  k.announce(k.getRowNumber(stage), item);
  Value offset =
      b.mul(b.mul(k.widen(row), k.sizes.inReduction), k.getInputBytes());
  createBulkLoad(b, b.offsetBytes(k.input, offset), k.getRowStage(stage), bytes,
                 barrier);
}

/// The group of a row (i32), that behind all groups for rows of none. Behind
/// the last row it is repeated.
Value RowsBuilder::loadGroup(Value item) {
  Value row = k.widen(b.minS(getRow(item), b.sub(k.rows, 1)));
  // Not read-only, as offsets are not.
  return b.load(b.getI32Type(),
                b.offsetBytes(k.groupsOfRows, b.mul(row, kWordBytes)),
                kWordBytes);
}

/// The factors of the lane's chunks of so many lines, from byte `first` of the
/// row on. Behind the row's end they are those of its last chunk.
SmallVector<Value> RowsBuilder::loadFactors(Value factors, Value first,
                                            int64_t lines) {
  return llvm::map_to_vector(llvm::seq(lines), [&](int64_t i) {
    Value byte = b.minS(b.add(first, i * getLineBytes()),
                        b.i32(k.tile.rowBytes - kChunkBytes));
    return b.load(b.getWordsType(), b.offsetBytes(factors, byte), kChunkBytes);
  });
}

/// Calls `body` with each of the lane's chunks of so many lines of the row in
/// shared memory at `row`, from its byte `first` on.
SmallVector<Value> RowsBuilder::takeLines(Value row, Value first, int64_t count,
                                          ArrayRef<Value> factors,
                                          ValueRange init, ChunkBody body) {
  auto getPointer = [&](int64_t i) {
    return b.offsetBytes(b.offsetBytes(row, first), i * getLineBytes());
  };
  SmallVector<Value> chunks, carried(init);
  for (int64_t i : llvm::seq(count))
    chunks.push_back(b.load(b.getWordsType(), getPointer(i), kChunkBytes));
  for (auto [i, factor] : llvm::enumerate(factors)) {
    chunks[i] = k.multiply(chunks[i], factor);
    b.store(chunks[i], getPointer(i), kChunkBytes);
  }
  for (auto [i, chunk] : llvm::enumerate(chunks))
    carried = body(chunk, b.add(first, i * getLineBytes()), carried);
  return carried;
}

/// Calls `body` with each of the lane's chunks of the row in shared memory at
/// `row` and with the number of its first byte, and carries values along. With
/// `factors`, elements are multiplied by them first, also in shared memory;
/// `firstFactors` are those of the first lines. The next ones are on their way
/// while lines are multiplied.
SmallVector<Value> RowsBuilder::forEachChunk(ValueRange init, Value row,
                                             Value factors,
                                             ArrayRef<Value> firstFactors,
                                             ChunkBody body) {
  const size_t carriedValues = init.size();
  const int64_t lines = k.tile.rowBytes / getLineBytes();
  const int64_t blocks = lines / kChunksAtOnce;
  const int64_t blockBytes = kChunksAtOnce * getLineBytes();
  SmallVector<Value> carried(init);
  llvm::append_range(carried, firstFactors);
  carried = b.createRareFor(
      b.i32(0), b.i32(blocks * blockBytes), blockBytes, carried,
      [&](Value begin, ValueRange carried) {
        Value first = b.add(begin, laneChunk);
        SmallVector<Value> next;
        if (factors)
          next = loadFactors(factors, b.add(first, blockBytes), kChunksAtOnce);
        SmallVector<Value> results = takeLines(
            row, first, kChunksAtOnce,
            llvm::to_vector_of<Value>(carried.drop_front(carriedValues)),
            carried.take_front(carriedValues), body);
        llvm::append_range(results, next);
        return results;
      });
  // What is left are fewer lines, and a part of one.
  SmallVector<Value> lastFactors(ArrayRef(carried).drop_front(carriedValues));
  carried.truncate(carriedValues);
  const int64_t left = lines - blocks * kChunksAtOnce;
  auto getFactors = [&](int64_t begin, int64_t count) {
    return ArrayRef(lastFactors).slice(begin, factors ? count : 0);
  };
  carried = takeLines(row, b.add(laneChunk, blocks * blockBytes), left,
                      getFactors(0, left), carried, body);
  const int64_t rest = k.tile.rowBytes - lines * getLineBytes();
  if (!rest)
    return carried;
  return b.createIf(
      b.less(laneChunk, b.i32(rest)), ValueRange(carried).getTypes(),
      [&] {
        return takeLines(row, b.add(laneChunk, lines * getLineBytes()), 1,
                         getFactors(factors ? left : 0, 1), carried, body);
      },
      [&] { return carried; });
}

/// The f32 bits of the row's largest magnitude, from those of the lane's
/// chunks.
Value RowsBuilder::getMagnitude(Value largest) {
  SmallVector<Value> magnitudes = k.math.unpackMagnitudes(largest);
  Value magnitude = magnitudes.front();
  for (Value other : ArrayRef(magnitudes).drop_front())
    magnitude = b.maxU(magnitude, other);
  return b.maxOfLanes(magnitude);
}

Value RowsBuilder::convert(Value chunk, Value scale) {
  SmallVector<Value> words;
  if (k.math.scalesPacked()) {
    Value factor = vector::BroadcastOp::create(
        b, VectorType::get(8, b.getBF16Type()),
        arith::TruncFOp::create(b, b.getBF16Type(), scale));
    SmallVector<Value> elements =
        k.math.unpackValues(k.math.createPackedProduct(chunk, factor));
    for (size_t first = 0; first < elements.size(); first += 4)
      words.push_back(b.getHooks().createPackFP8(
          b, ArrayRef(elements).slice(first, 4), k.problem.fp8Type));
  } else {
    SmallVector<Value> elements = k.math.unpackValues(chunk);
    words = k.math.createQuantize(elements,
                                  SmallVector<Value>(elements.size(), scale));
  }
  if (words.size() == 1)
    return words.front();
  return vector::FromElementsOp::create(
      b, VectorType::get(words.size(), b.getI32Type()), words);
}

/// The lane's chunks of a row that it holds, times their factors; zeros behind
/// the row's end.
SmallVector<Value> RowsBuilder::loadProducts(Value row,
                                             ArrayRef<Value> factors) {
  SmallVector<Value> products;
  for (auto [i, factor] : llvm::enumerate(factors)) {
    Value byte = b.add(laneChunk, i * getLineBytes());
    Value inRow = b.minS(byte, b.i32(k.tile.rowBytes - kChunkBytes));
    Value pointer = b.offsetBytes(row, isWhole(i) ? byte : inRow);
    Value product =
        k.multiply(b.load(b.getWordsType(), pointer, kChunkBytes), factor);
    if (!isWhole(i))
      product = b.select(b.less(byte, k.tile.rowBytes), product, b.zeroWords());
    products.push_back(product);
  }
  return products;
}

/// `group` is that of the row where it is divided, else null.
void RowsBuilder::handle(Value item, Value group) {
  Value stage = b.remU(item, k.tile.rowStages);
  Value factors;
  SmallVector<Value> firstFactors;
  if (group) {
    factors =
        b.offsetBytes(k.groupFactors, b.mul(k.widen(group), k.tile.rowBytes));
    firstFactors = loadFactors(factors, laneChunk,
                               holdsRow() ? countHeld() : kChunksAtOnce);
  }
  // Who loads the row has read the one before it in the stage, so that the
  // parity means this one.
  createBoundedWait(
      b, WaitClock::Cycles, {},
      [&](ValueRange) {
        Value number = loadRelaxed(b, k.getRowNumber(stage));
        return b.compare(arith::CmpIPredicate::ne, number, item);
      },
      [&](ValueRange) { return SmallVector<Value>(); });
  createBarrierWait(b, k.getRowBarrier(stage),
                    b.bitAnd(b.divU(item, k.tile.rowStages), 1));
  Value shared = k.getRowStage(stage);
  SmallVector<Value> held;
  Value largest = b.zeroWords();
  if (group && holdsRow()) {
    held = loadProducts(shared, firstFactors);
    for (Value chunk : held)
      largest = k.math.createAbsMax(largest, chunk);
  } else {
    largest = forEachChunk(largest, shared, factors, firstFactors,
                           [&](Value chunk, Value, ValueRange carried) {
                             return SmallVector<Value>{
                                 k.math.createAbsMax(carried[0], chunk)};
                           })
                  .front();
  }
  Value scale = k.math.createScale(getMagnitude(largest));
  Value row = k.widen(getRow(item));
  b.createIf(k.isFirstLane, [&] {
    Value offset = b.mul(row, k.rowOutput.scaleStride * int64_t(sizeof(float)));
    b.store(scale, b.offsetBytes(k.rowScales, offset), sizeof(float));
  });
  Value output = b.offsetBytes(k.rowQuantized, b.mul(row, k.rowOutput.pitch));
  auto store = [&](Value chunk, Value byte, ValueRange) {
    Value offset =
        b.zeroExtend(b.getI64Type(), b.divU(byte, k.getInputBytes()));
    b.store(convert(chunk, scale), b.offsetBytes(output, offset),
            getOutputBytes());
    return SmallVector<Value>();
  };
  if (held.empty())
    forEachChunk({}, shared, /*factors=*/Value(), /*firstFactors=*/{}, store);
  for (auto [i, chunk] : llvm::enumerate(held)) {
    Value byte = b.add(laneChunk, i * getLineBytes());
    if (isWhole(i))
      store(chunk, byte, {});
    else
      b.createIf(b.less(byte, k.tile.rowBytes),
                 [&, chunk = chunk] { store(chunk, byte, {}); });
  }
  // As for the release of a stage of tiles.
  createAsyncProxyFence(b);
  b.syncSubgroup();
}

void RowsBuilder::build() {
  Value rows = b.maxS(b.sub(k.rows, k.block), 0);
  Value items = b.ceilDiv(rows, k.numBlocks);
  b.createIf(k.isFirstLane, [&] {
    b.createFor(warp, b.minS(items, k.tile.rowStages), k.tile.rowWarps,
                [&](Value item) { loadRow(item); });
  });
  b.syncSubgroup();
  // The group of the next row is on its way while this one is done.
  SmallVector<Value> first;
  if (k.problem.divided)
    first.push_back(loadGroup(warp));
  b.createFor(warp, items, k.tile.rowWarps, first,
              [&](Value item, ValueRange group) {
                SmallVector<Value> next;
                if (k.problem.divided) {
                  next.push_back(loadGroup(b.add(item, k.tile.rowWarps)));
                }
                handle(item, group.empty() ? Value() : group.front());
                Value loaded = b.add(item, k.tile.rowStages);
                b.createIf(k.both(k.isFirstLane, b.less(loaded, items)),
                           [&] { loadRow(loaded); });
                b.syncSubgroup();
                return next;
              });
  b.createIf(k.isFirstLane,
             [&] { k.announce(k.getRowProgress(), b.i32(kAllRead)); });
}

void fp8moe::buildSinglePassOuterRows(SinglePassOuterKernel &kernel,
                                      Value warp) {
  RowsBuilder(kernel, warp).build();
}
