//===- Kernel.cpp - Quantize whole columns from one read ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Cluster.h"
#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Builder.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_inner;

/// Lines that a warp loads before it uses the first of them.
static constexpr int64_t kLinesAtOnce = 4;
/// Warps with a role of their own.
static constexpr int64_t kProducerWarp = 0;
static constexpr int64_t kScaleWarp = 1;
/// Bytes that a block asks for ahead of what has come, and bulk tiles: with
/// more, 24576x3072 took up to 4% longer on one NVIDIA H200, and 1536x5120,
/// whose columns are 3 KiB, took 10% longer with 18 KiB. Blocks of a cluster,
/// whose rings hold little more than a column, ask for all that they have room
/// for: 131072x2048 took 3% longer with 16 bulk tiles, 15% with 4.
static constexpr int64_t kBytesInFlight = 48 << 10;
static constexpr int64_t kMaxBulkTilesInFlight = 12;
/// Words of input in a chunk.
static constexpr int64_t kChunkWords = kChunkBytes / kWordBytes;

SinglePassInnerBuilder::SinglePassInnerBuilder(
    KernelBuilder &b, const AxisQuantizeProblem &problem,
    const SinglePassInnerTile &tile, const SharedMemory &memory)
    : b(b), tile(tile), memory(memory),
      math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo),
      ring(b, b.offsetBytes(b.getDynamicShared(), memory.ring), memory.stages),
      input(b.getPointer(0)), offsets(b.getPointer(1)), output(b.getPointer(2)),
      scales(b.getPointer(3)), shared(b.getDynamicShared()) {
  unsigned parameter = 0;
  sizes = bindSizes(b, problem.sizes, parameter);
  lane = narrow(b.getLane());
  warp = createUniformWarp(b);
  isFirstLane = b.equal(lane, 0);
  groups = narrow(sizes.segments);
}

void SinglePassInnerBuilder::build() {
  divideWork();
  initialize();
  createWarpRoles(
      b, warp,
      {{/*warps=*/1, [&](Value) { buildProducer(); }}, // kProducerWarp
       {/*warps=*/1, [&](Value) { buildScale(); }},    // kScaleWarp
       {tile.reduceWarps, [&](Value number) { buildReduce(number); }},
       {tile.convertWarps, [&](Value number) { buildConvert(number); }}});
  // Others may still send magnitudes here.
  if (isCluster())
    createClusterBarrier(b);
}

//===----------------------------------------------------------------------===//
// What all columns have in common
//===----------------------------------------------------------------------===//

/// The number of bulk tiles of `length` rows, and the rows of each but the
/// last.
std::pair<Value, Value> SinglePassInnerBuilder::dividePart(Value length) {
  int64_t most = kBulkTileBytes / getInputBytes();
  Value count = b.maxS(b.ceilDiv(length, most), 1);
  Value rows =
      b.maxS(b.roundUp(b.ceilDiv(length, count), getLineRows()), getLineRows());
  return {b.ceilDiv(length, rows), rows};
}

void SinglePassInnerBuilder::divideWork() {
  Value block = narrow(b.getBlock());
  Value blocks = b.getNumBlocks();
  rank = b.remU(block, tile.cluster);
  Value team = b.divU(block, tile.cluster);
  Value teams = b.divU(blocks, tile.cluster);
  // The first teams have one column more.
  Value columns = narrow(sizes.parallel);
  Value share = b.divU(columns, teams);
  Value longer = b.sub(columns, b.mul(share, teams));
  firstColumn = b.add(b.mul(team, share), b.minS(team, longer));
  numColumns = b.select(b.less(team, longer), b.add(share, 1), share);

  Value rows = narrow(sizes.reduction);
  Value part = b.roundUp(b.ceilDiv(rows, tile.cluster), getLineRows());
  auto getRow = [&](Value number) { return b.minS(b.mul(number, part), rows); };
  firstRow = getRow(rank);
  numRows = b.sub(getRow(b.add(rank, 1)), firstRow);
  std::tie(bulkTiles, bulkTileRows) = dividePart(numRows);
  static_assert(kLineBytes == kLaneSpans * kChunkBytes);
  spanRows =
      b.mul(b.bitOr(b.divU(bulkTileRows, getLineRows()), 1), getChunkRows());
  allBulkTiles = b.i32(0);
  for (int64_t other : llvm::seq(tile.cluster)) {
    Value length = b.sub(getRow(b.i32(other + 1)), getRow(b.i32(other)));
    allBulkTiles = b.add(allBulkTiles, dividePart(length).first);
  }
}

/// The first copies are on their way while groups are looked for.
void SinglePassInnerBuilder::initialize() {
  Value arrivals =
      isCluster() ? allBulkTiles : b.mul(allBulkTiles, b.getSubgroupSize());
  b.createIf(b.equal(warp, kProducerWarp), [&] {
    b.createIf(createElect(b), [&] {
      ring.createInit(/*fullArrivals=*/1, /*releases=*/1);
      for (int64_t slot : llvm::seq(memory.slots)) {
        createBarrierInit(b, getReducedBarrier(b.i32(slot)), arrivals);
        createBarrierInit(b, getScaledBarrier(b.i32(slot)),
                          b.i32(b.getSubgroupSize()));
      }
      createBarrierInitFence(b);
      if (!isCluster())
        loadBulkTiles(b.i32(0), getFirstBulkTiles(), /*isPaced=*/false);
    });
  });
  b.createIf(b.equal(warp, kScaleWarp), [&] { findGroups(); });
  // Magnitudes begin at zero. So do scales: those of the rows behind the last
  // group stay.
  Value words = b.i32(2 * memory.slots * (tile.groups + 1));
  b.createFor(narrow(b.getThread()), words, b.getNumThreads(), [&](Value word) {
    b.store(b.i32(0), getShared(memory.magnitudes, word, kWordBytes),
            kWordBytes);
  });
  storeMasks();
  b.createBarrier();
  present = loadWord(getShared(memory.numbers, groups, kWordBytes));
  findFirstGroups();
  b.createBarrier();
  if (isCluster())
    createClusterBarrier(b);
}

/// By one warp: the number of each group among those that have rows, or -1, and
/// by that number its end in the block's rows. The rows behind the last group
/// are the last one, whether there are any or not.
void SinglePassInnerBuilder::findGroups() {
  Value rows = narrow(sizes.reduction);
  auto larger = [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); };
  auto plus = [&](Value lhs, Value rhs) { return b.add(lhs, rhs); };
  // Combines the values of a lane and of those before it; `none` changes
  // nothing.
  auto scan = [&](Value value, int64_t none,
                  function_ref<Value(Value, Value)> combine) {
    for (int64_t step = 1; step < b.getSubgroupSize(); step *= 2) {
      Value other = b.shuffleIndex(value, b.maxS(b.sub(lane, step), 0));
      value = combine(
          value, b.select(b.lessEqual(b.i32(step), lane), other, b.i32(none)));
    }
    return value;
  };
  Value lastLane = b.i32(b.getSubgroupSize() - 1);
  b.createFor(
      b.i32(0), b.add(groups, 1), b.getSubgroupSize(), {b.i32(0), b.i32(0)},
      [&](Value first, ValueRange carried) {
        Value group = b.add(first, lane);
        Value isGroup = b.less(group, groups);
        Value end =
            b.createIf(
                 isGroup, {b.getI32Type()},
                 [&] {
                   Value pointer =
                       b.offsetBytes(offsets, b.mul(widen(group), kWordBytes));
                   Value end = b.load(b.getI32Type(), pointer, kWordBytes,
                                      /*readOnly=*/true);
                   return SmallVector<Value>{b.clamp(end, 0, rows)};
                 },
                 [&] { return SmallVector<Value>{rows}; })
                .front();
        // Ends never decrease.
        end = larger(scan(end, 0, larger), carried[0]);
        Value before = b.select(isFirstLane, carried[0],
                                b.shuffleIndex(end, b.maxS(b.sub(lane, 1), 0)));
        Value hasRows = b.bitAnd(isGroup, b.less(before, end));
        Value own = b.select(hasRows, b.i32(1), b.i32(0));
        Value upToOwn = b.add(scan(own, 0, plus), carried[1]);
        Value number = b.sub(upToOwn, own);
        Value isRemainder = b.equal(group, groups);
        b.createIf(b.lessEqual(group, groups), [&] {
          b.store(b.select(b.bitOr(hasRows, isRemainder), number, b.i32(-1)),
                  getShared(memory.numbers, group, kWordBytes), kWordBytes);
        });
        b.createIf(b.bitOr(hasRows, isRemainder), [&] {
          b.store(b.clamp(b.sub(end, firstRow), 0, numRows),
                  getShared(memory.ends, number, kWordBytes), kWordBytes);
        });
        return SmallVector<Value>{b.shuffleIndex(end, lastLane),
                                  b.shuffleIndex(upToOwn, lastLane)};
      });
}

/// By all threads: the group that each span of each bulk tile begins in.
void SinglePassInnerBuilder::findFirstGroups() {
  b.createFor(
      narrow(b.getThread()), b.mul(bulkTiles, kLaneSpans), b.getNumThreads(),
      [&](Value index) {
        Value row = b.add(b.mul(b.divU(index, kLaneSpans), bulkTileRows),
                          b.mul(b.remU(index, kLaneSpans), spanRows));
        // The number of groups that end before the row, bit by bit.
        Value number = b.i32(0);
        for (int64_t step = llvm::bit_floor<uint64_t>(tile.groups + 1); step;
             step /= 2) {
          Value next = b.add(number, step);
          Value end = loadWord(
              getShared(memory.ends, b.maxS(b.sub(b.minS(next, present), 1), 0),
                        kWordBytes));
          Value isPast =
              b.bitAnd(b.lessEqual(next, present), b.lessEqual(end, row));
          number = b.select(isPast, next, number);
        }
        b.store(number, getShared(memory.firstGroups, index, kWordBytes),
                kWordBytes);
      });
}

//===----------------------------------------------------------------------===//
// Bulk tiles and groups
//===----------------------------------------------------------------------===//

void SinglePassInnerBuilder::forEachBulkTile(
    Value first, int64_t step, function_ref<void(const BulkTile &)> body) {
  b.createFor(first, b.mul(numColumns, bulkTiles), step, [&](Value index) {
    BulkTile bulkTile;
    bulkTile.position = ring.getPosition(index);
    bulkTile.column = b.divU(index, bulkTiles);
    bulkTile.slot = b.remU(bulkTile.column, memory.slots);
    bulkTile.slotParity = b.bitAnd(b.divU(bulkTile.column, memory.slots), 1);
    Value number = b.sub(index, b.mul(bulkTile.column, bulkTiles));
    bulkTile.row = b.mul(number, bulkTileRows);
    bulkTile.rows = b.minS(bulkTileRows, b.sub(numRows, bulkTile.row));
    bulkTile.firstGroups =
        getShared(memory.firstGroups, b.mul(number, kLaneSpans), kWordBytes);
    bulkTile.group = loadWord(bulkTile.firstGroups);
    body(bulkTile);
  });
}

/// Several lines at a time where they lie in one group, else one. A value is
/// carried along: `whole` returns the next one, `shared` the end of the group
/// at the end of its line, that group, and the value.
SmallVector<Value> SinglePassInnerBuilder::forEachLine(
    const BulkTile &bulkTile, Cursor first, Value init,
    function_ref<Value(ArrayRef<Value>, Cursor, Value)> whole,
    function_ref<SmallVector<Value>(Value, Value, Cursor, Value)> shared) {
  int64_t lineRows = getLineRows();
  SmallVector<Type> types{b.getI32Type(), b.getI32Type(), init.getType()};
  auto pass = [&](ArrayRef<Value> rows, ValueRange carried) {
    Value next = whole(rows, {carried[1], carried[0]}, carried[2]);
    return SmallVector<Value>{carried[0], carried[1], next};
  };
  auto takeLine = [&](Value row, ValueRange carried) {
    Value lineEnd = b.minS(b.add(row, lineRows), bulkTile.rows);
    return b.createIf(
        b.lessEqual(lineEnd, carried[0]), types,
        [&] { return pass(row, carried); },
        [&] {
          return shared(row, lineEnd, {carried[1], carried[0]}, carried[2]);
        });
  };
  int64_t blockRows = kLinesAtOnce * lineRows;
  return b.createFor(
      b.i32(0), bulkTile.rows, blockRows, {first.end, first.group, init},
      [&](Value row, ValueRange carried) {
        Value blockEnd = b.add(row, blockRows);
        Value isWhole =
            b.lessEqual(blockEnd, b.minS(carried[0], bulkTile.rows));
        return b.createIf(
            isWhole, types,
            [&] {
              SmallVector<Value> rows;
              for (int64_t line : llvm::seq(kLinesAtOnce))
                rows.push_back(b.add(row, line * lineRows));
              return pass(rows, carried);
            },
            [&] {
              return b.createRareFor(row, b.minS(blockEnd, bulkTile.rows),
                                     lineRows, carried, takeLine);
            });
      });
}

/// Where a lane's chunk of the first line is.
Value SinglePassInnerBuilder::getLanePointer(const BulkTile &bulkTile) {
  return b.offsetBytes(getShared(0, bulkTile.position.stage, kBulkTileBytes),
                       b.mul(lane, kChunkBytes));
}

/// The lane's chunk of the line that begins at `row`; zero behind the bulk
/// tile.
Value SinglePassInnerBuilder::loadLine(Value pointer, Value row,
                                       Value isInside) {
  return b
      .createIf(
          isInside, {b.getWordsType()},
          [&] {
            Value words =
                b.load(b.getWordsType(),
                       b.offsetBytes(pointer, b.mul(row, getInputBytes())),
                       kChunkBytes);
            return SmallVector<Value>{words};
          },
          [&] { return SmallVector<Value>{b.zeroWords()}; })
      .front();
}

Cursor SinglePassInnerBuilder::getGroup(Value group, const BulkTile &bulkTile) {
  Value end = loadWord(getShared(memory.ends, group, kWordBytes));
  return {group, b.sub(end, bulkTile.row)};
}

/// Masks are loaded: to compute one takes as long as to convert a chunk.
Value SinglePassInnerBuilder::getMaskBelow(Value count) {
  Value entry = b.clamp(count, 0, getChunkRows());
  return b.load(b.getWordsType(), getShared(memory.masks, entry, kChunkBytes),
                kChunkBytes);
}

void SinglePassInnerBuilder::storeMasks() {
  constexpr int64_t kByteBits = 8;
  Value thread = narrow(b.getThread());
  b.createIf(b.less(thread, (getChunkRows() + 1) * kChunkWords), [&] {
    Value bytes = b.mul(b.divU(thread, kChunkWords), getInputBytes());
    Value before = b.mul(b.remU(thread, kChunkWords), kWordBytes);
    Value bits = b.mul(b.clamp(b.sub(bytes, before), 0, kWordBytes), kByteBits);
    Value mask = b.sub(b.shiftLeft(b.i64(1), widen(bits)), 1);
    b.store(narrow(mask), getShared(memory.masks, thread, kWordBytes),
            kWordBytes);
  });
}

//===----------------------------------------------------------------------===//
// Producer and scales
//===----------------------------------------------------------------------===//

/// By one thread: bulk tiles `first` to `last` of all of the block's columns.
/// If it `isPaced`, a bulk tile waits until the one has come that is `first`
/// before it. Small columns come fast, so that nothing is divided for each.
void SinglePassInnerBuilder::loadBulkTiles(Value first, Value last,
                                           bool isPaced) {
  RingPosition begin = ring.getPosition(first);
  RingPosition landed = ring.getPosition(b.i32(0));
  Value column = b.divU(first, bulkTiles);
  Value number = b.sub(first, b.mul(column, bulkTiles));
  Value element =
      b.add(b.mul(widen(b.add(firstColumn, column)), sizes.inParallel),
            widen(firstRow));
  Value source = b.offsetBytes(input, b.mul(element, getInputBytes()));
  Value pitch = b.mul(sizes.inParallel, getInputBytes());
  b.createFor(
      first, last, 1,
      {begin.stage, begin.parity, landed.stage, landed.parity, number, source},
      [&](Value, ValueRange carried) {
        RingPosition position{carried[0], carried[1]};
        RingPosition landed{carried[2], carried[3]};
        Value number = carried[4], column = carried[5];
        Value row = b.mul(number, bulkTileRows);
        Value bytes =
            b.mul(b.minS(bulkTileRows, b.sub(numRows, row)), getInputBytes());
        if (isPaced) {
          ring.createWaitFull(landed);
          landed = ring.getNext(landed);
        }
        ring.createWaitEmpty(position);
        Value full = ring.getFullBarrier(position.stage);
        createArriveExpecting(b, full, bytes);
        createBulkLoad(
            b, b.offsetBytes(column, widen(b.mul(row, getInputBytes()))),
            getShared(0, position.stage, kBulkTileBytes), bytes, full);
        position = ring.getNext(position);
        Value nextNumber = b.add(number, 1);
        Value isLast = b.equal(nextNumber, bulkTiles);
        return SmallVector<Value>{
            position.stage,
            position.parity,
            landed.stage,
            landed.parity,
            b.select(isLast, b.i32(0), nextNumber),
            b.offsetBytes(column, b.select(isLast, pitch, b.i64(0)))};
      });
}

/// Bulk tiles that are asked for before any has come.
Value SinglePassInnerBuilder::getFirstBulkTiles() {
  Value bytes = b.mul(bulkTileRows, getInputBytes());
  return b.minS(
      b.mul(numColumns, bulkTiles),
      b.minS(b.ceilDiv(b.i32(kBytesInFlight), bytes), kMaxBulkTilesInFlight));
}

void SinglePassInnerBuilder::buildProducer() {
  b.createIf(createElect(b), [&] {
    loadBulkTiles(isCluster() ? b.i32(0) : getFirstBulkTiles(),
                  b.mul(numColumns, bulkTiles), /*isPaced=*/!isCluster());
  });
}

void SinglePassInnerBuilder::buildScale() {
  b.createFor(b.i32(0), numColumns, 1, [&](Value column) {
    Value slot = b.remU(column, memory.slots);
    Value parity = b.bitAnd(b.divU(column, memory.slots), 1);
    createBarrierWait(b, getReducedBarrier(slot), parity,
                      isCluster() ? BarrierScope::Cluster
                                  : BarrierScope::Block);
    b.createFor(lane, groups, b.getSubgroupSize(), [&](Value group) {
      Value number = loadWord(getShared(memory.numbers, group, kWordBytes));
      Value hasRows = b.lessEqual(b.i32(0), number);
      Value magnitude =
          b.createIf(
               hasRows, {b.getI32Type()},
               [&] {
                 Value pointer = getTableEntry(memory.magnitudes, slot, number);
                 Value magnitude = loadWord(pointer);
                 b.store(b.i32(0), pointer, kWordBytes);
                 return SmallVector<Value>{magnitude};
               },
               [&] { return SmallVector<Value>{b.i32(0)}; })
              .front();
      Value scale = math.createScale(magnitude);
      b.createIf(hasRows, [&] {
        b.store(scale, getTableEntry(memory.scales, slot, number), kWordBytes);
      });
      // The blocks of a cluster share the groups.
      b.createIf(b.equal(b.remU(group, tile.cluster), rank), [&] {
        Value element = b.add(
            b.mul(widen(group), sizes.scaleSegment),
            b.mul(widen(b.add(firstColumn, column)), sizes.scaleParallel));
        b.store(scale, b.offsetBytes(scales, b.mul(element, sizeof(float))),
                sizeof(float));
      });
    });
    // Each lane vouches for what it stored.
    createArrive(b, getScaledBarrier(slot));
  });
}

gpu::GPUFuncOp fp8moe::buildSinglePassInnerQuantize(
    Location loc, gpu::GPUModuleOp module, StringRef name,
    const AxisQuantizeProblem &problem, const SinglePassInnerTile &tile,
    const single_pass_inner::SharedMemory &memory, const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 4;
  for (auto member : QuantizeSizes<int64_t>::members())
    signature.sizes += ShapedType::isDynamic(problem.sizes.*member);
  signature.hasBlockCount = false;
  signature.threads = tile.getThreads(hooks.getSubgroupSize());
  signature.cluster = tile.cluster;
  KernelBuilder b(loc, module, name, signature, hooks);
  SinglePassInnerBuilder(b, problem, tile, memory).build();
  return b.getKernel();
}
