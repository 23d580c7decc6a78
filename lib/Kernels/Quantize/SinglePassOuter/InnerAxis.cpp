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
// the stage is for next. A stage needs no mbarrier "empty": who reads it fills
// it again. The warp that waits for that row may be another one, and may come
// before the load begins, when a parity would mean an earlier row; so the
// number of the row is there to be read.
//
// Rows and tiles read the same tensor, each all of it. The second of the two to
// read data finds it in the L2 cache if it comes soon enough; so neither goes
// far ahead. Each publishes what it is about to load, R or T as a row, before
// it waits:
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

#include "Kernels/Emit/NVIDIA/BoundedWait.h"
#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Chunks of a row that a lane loads before it uses the first of them.
static constexpr int64_t kChunksAtOnce = 4;

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
  createBoundedWait(b, [&] { return b.less(b.loadRelaxed(other), least); });
}

void SinglePassOuterKernel::advanceTiles(Value row) {
  if (!tile.hasRows())
    return;
  keepPace(getTileProgress(), row, getRowProgress());
}

//===----------------------------------------------------------------------===//
// Processing of a row
//===----------------------------------------------------------------------===//

namespace {
/// Builds the row warps. An item is the index of a row among the block's.
class RowsBuilder {
public:
  RowsBuilder(SinglePassOuterKernel &kernel, Value warp)
      : k(kernel), b(kernel.b),
        items(b.ceilDiv(b.maxS(b.sub(kernel.rows, kernel.block), 0),
                        kernel.numBlocks)),
        warp(warp), laneChunk(b.mul(k.lane, kChunkBytes)) {}

  void build();

private:
  /// Returns the bytes of a warp's vector access.
  int64_t getWarpBytes() const { return kChunkBytes * b.getSubgroupSize(); }
  Value getRow(Value item) { return b.add(k.block, b.mul(item, k.numBlocks)); }
  Value getStage(Value item) { return b.remU(item, k.tile.rowStages); }

  void loadRow(Value item);
  Value waitForRow(Value item);
  void storeScale(Value item, Value scale);
  Value getOutput(Value item);
  Value convert(Value chunk, Value scale);
  void storeQuantized(Value output, Value byte, Value chunk, Value scale);
  void handle(Value item);

  using ChunkBody =
      function_ref<SmallVector<Value>(Value chunk, Value byte, ValueRange)>;

  SmallVector<Value> takeLines(Value row, Value first, int64_t count,
                               ValueRange init, ChunkBody body);
  SmallVector<Value> forEachChunk(ValueRange init, Value row, ChunkBody body);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value items;
  Value warp;
  Value laneChunk;
};
} // namespace

/// Starts the load of a row to its stage. Called by one thread.
void RowsBuilder::loadRow(Value item) {
  Value stage = getStage(item);
  Value row = getRow(item);
  // Another warp may be behind this one, and say so later: the largest counts.
  k.keepPace(k.getRowProgress(), row, k.getTileProgress());
  Value barrier = k.getRowBarrier(stage);
  Value bytes = b.i32(k.tile.rowBytes);
  kernel::ArriveExpectTxOp::create(b, barrier, bytes);
  k.announce(k.getRowNumber(stage), item);
  Value offset =
      b.mul(b.mul(b.widenSigned(row), k.sizes.inReduction), k.getInputBytes());
  Value source = b.offsetBytes(k.input, offset);
  kernel::BulkLoadOp::create(b, k.getRowStage(stage), source, bytes, barrier);
}

/// Waits for a row, and returns its address in shared memory.
Value RowsBuilder::waitForRow(Value item) {
  Value stage = getStage(item);
  // The producer of the row has read the one before it in the stage, so that
  // the parity means this one.
  createBoundedWait(b, [&] {
    Value number = b.loadRelaxed(k.getRowNumber(stage));
    return b.compare(arith::CmpIPredicate::ne, number, item);
  });
  kernel::WaitParityOp::create(b, k.getRowBarrier(stage),
                               b.bitAnd(b.divU(item, k.tile.rowStages), 1));
  return k.getRowStage(stage);
}

void RowsBuilder::storeScale(Value item, Value scale) {
  Value row = b.widenSigned(getRow(item));
  Value offset = b.mul(row, k.rowOutput.scaleStride * int64_t(sizeof(float)));
  b.storeWord(scale, b.offsetBytes(k.rowScales, offset));
}

/// Returns the address of the quantized row.
Value RowsBuilder::getOutput(Value item) {
  Value row = b.widenSigned(getRow(item));
  return b.offsetBytes(k.rowQuantized, b.mul(row, k.rowOutput.pitch));
}

/// Quantizes the chunk at byte `byte` of the input's row.
void RowsBuilder::storeQuantized(Value output, Value byte, Value chunk,
                                 Value scale) {
  Value offset = b.widen(b.divU(byte, k.getInputBytes()));
  b.store(convert(chunk, scale), b.offsetBytes(output, offset),
          kChunkBytes / k.getInputBytes());
}

/// Converts a chunk to FP8 bytes.
Value RowsBuilder::convert(Value chunk, Value scale) {
  SmallVector<Value> words;
  if (k.math.scalesPacked()) {
    Value factor = vector::BroadcastOp::create(
        b, VectorType::get(8, b.getBF16Type()),
        arith::TruncFOp::create(b, b.getBF16Type(), scale));
    words = k.math.createFP8(
        k.math.unpackValues(k.math.createPackedProduct(chunk, factor)));
  } else {
    SmallVector<Value> elements = k.math.unpackValues(chunk);
    words = k.math.createQuantize(elements,
                                  SmallVector<Value>(elements.size(), scale));
  }
  return b.packWords(words);
}

/// Calls `body` with each of the lane's chunks of so many lines of the row in
/// shared memory at `row`, from its byte `first` on.
SmallVector<Value> RowsBuilder::takeLines(Value row, Value first, int64_t count,
                                          ValueRange init, ChunkBody body) {
  SmallVector<Value> chunks, carried(init);
  for (int64_t i : llvm::seq(count)) {
    Value pointer =
        b.offsetBytes(b.offsetBytes(row, first), i * getWarpBytes());
    chunks.push_back(b.load(b.getWordsType(), pointer, kChunkBytes));
  }
  for (auto [i, chunk] : llvm::enumerate(chunks))
    carried = body(chunk, b.add(first, i * getWarpBytes()), carried);
  return carried;
}

/// Calls `body` with each of the lane's chunks of the row in shared memory at
/// `row` and with the number of its first byte, and carries values along.
SmallVector<Value> RowsBuilder::forEachChunk(ValueRange init, Value row,
                                             ChunkBody body) {
  const int64_t lines = k.tile.rowBytes / getWarpBytes();
  const int64_t blocks = lines / kChunksAtOnce;
  const int64_t blockBytes = kChunksAtOnce * getWarpBytes();
  SmallVector<Value> carried =
      b.createRareFor(b.i32(0), b.i32(blocks * blockBytes), blockBytes, init,
                      [&](Value begin, ValueRange carried) {
                        return takeLines(row, b.add(begin, laneChunk),
                                         kChunksAtOnce, carried, body);
                      });
  // The rest is fewer lines, and a part of one.
  carried = takeLines(row, b.add(laneChunk, blocks * blockBytes),
                      lines - blocks * kChunksAtOnce, carried, body);
  const int64_t rest = k.tile.rowBytes - lines * getWarpBytes();
  if (!rest)
    return carried;
  return b.createIf(
      b.less(laneChunk, b.i32(rest)),
      [&] {
        return takeLines(row, b.add(laneChunk, lines * getWarpBytes()), 1,
                         carried, body);
      },
      [&] { return carried; });
}

void RowsBuilder::handle(Value item) {
  Value shared = waitForRow(item);
  Value largest = forEachChunk(b.zeroWords(), shared,
                               [&](Value chunk, Value, ValueRange carried) {
                                 return SmallVector<Value>{
                                     k.math.createAbsMax(carried[0], chunk)};
                               })
                      .front();
  Value scale = k.math.createScale(b.maxOfLanes(k.math.createLargest(largest)));
  b.createIf(k.isFirstLane, [&] { storeScale(item, scale); });
  Value output = getOutput(item);
  forEachChunk({}, shared, [&](Value chunk, Value byte, ValueRange) {
    storeQuantized(output, byte, chunk, scale);
    return SmallVector<Value>();
  });
  // As for the release of a stage of tiles.
  kernel::AsyncProxyFenceOp::create(b);
  b.syncSubgroup();
}

void RowsBuilder::build() {
  const int64_t warps = SinglePassOuterTile::kRowWarps;
  b.createIf(k.isFirstLane, [&] {
    b.createFor(warp, b.minS(items, k.tile.rowStages), warps,
                [&](Value item) { loadRow(item); });
  });
  b.syncSubgroup();
  b.createFor(warp, items, warps, [&](Value item) {
    handle(item);
    Value next = b.add(item, k.tile.rowStages);
    b.createIf(k.both(k.isFirstLane, b.less(next, items)),
               [&] { loadRow(next); });
    b.syncSubgroup();
  });
  b.createIf(k.isFirstLane,
             [&] { k.announce(k.getRowProgress(), b.i32(kAllRead)); });
}

void fp8moe::buildSinglePassOuterRows(SinglePassOuterKernel &kernel,
                                      Value warp) {
  RowsBuilder(kernel, warp).build();
}
