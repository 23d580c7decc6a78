//===- Epilogue.cpp - Scales and writes tiles -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A warp holds 16 of each 64 rows. It stores them by TMA from two shared memory
// buffers of its own, a few boxes at a time: while one buffer is being stored,
// the other is filled. Warps do not wait for each other meanwhile. Rows of the
// next group must not be written. So where not all rows of a warp are in the
// group, its threads store them instead.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/WarpRoles.h"
#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// A thread holds four results of each eight columns: two neighbours in row
/// lane / 4 of the warp's 16 rows, and two in the row eight below.
static constexpr int64_t kRowsPerWarp = ResultBox::kRows;
static constexpr int64_t kFragmentRows = 8;
static constexpr int64_t kFragmentColumns = 8;
static constexpr int64_t kLanesPerRow = 4;
/// Columns that one stmatrix of four 8x8 matrices covers.
static constexpr int64_t kMatrixColumns = 16;

MatmulEpilogue::MatmulEpilogue(GroupedMatmulKernel &kernel, Value consumer)
    : kernel(kernel), b(kernel.b), consumer(consumer),
      thread(b.named("thread_of_warpgroup",
                     b.bitAnd(b.narrow(b.getThread()), kWarpgroupThreads - 1))),
      warp(b.named("warp_of_warpgroup",
                   b.bitAnd(kernel.warp, kWarpgroupWarps - 1))),
      isLeader(b.named("is_first_lane", b.equal(kernel.lane, 0))),
      box(ResultBox::get(kernel.config.columns,
                         kernel.problem.getResultBytes())),
      swizzle(Swizzle::get(box.rowBytes)) {}

void MatmulEpilogue::createWarpgroupBarrier() {
  kernel::NamedBarrierOp::create(
      b, b.named("scales_of_warpgroup", b.add(consumer, 1)), kWarpgroupThreads);
}

void MatmulEpilogue::finish() {
  b.createIf(isLeader, [&] { kernel::WaitStoresReadOp::create(b, 0); });
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Returns the address in shared memory of scale `first + number` of this
/// consumer's tile. Scales of rows come first, then those of columns.
static Value getScaleAddress(GroupedMatmulKernel &kernel, Value consumer,
                             Value first, int64_t number) {
  KernelBuilder &b = kernel.b;
  KernelBuilder::Step step(b, "scale_address");
  int64_t count = kernel.config.getConsumerRows() + kernel.config.columns;
  Value bytes = b.mul(b.add(first, number), sizeof(float));
  Value ofTile =
      b.add(b.mul(consumer, count * sizeof(float)), kernel.memory.scales);
  return kernel::SharedPartOp::create(b, kernel::SharedUse::Memory, "scales",
                                      kernel.getShared(b.add(bytes, ofTile)),
                                      /*stage=*/Value());
}

/// Returns the scales that a thread loads, as offsets from its index.
SmallVector<int64_t> MatmulEpilogue::getScaleSteps(int64_t count) {
  SmallVector<int64_t> steps;
  for (int64_t step = 0; step < count; step += kWarpgroupThreads)
    steps.push_back(step);
  return steps;
}

SmallVector<Value> MatmulEpilogue::loadScales(const Tile &tile) {
  KernelBuilder::Step step(b, "load_scales");
  SmallVector<Value> scales;
  if (!kernel.problem.hasScalesA)
    return scales;
  // Beyond the last row or column the last one is repeated: nobody stores what
  // it scales.
  auto load = [&](Value pointer, Value groupStart, Value first, Value size,
                  int64_t count) {
    for (int64_t step : getScaleSteps(count)) {
      Value inTile = b.add(b.add(first, thread), step);
      Value index = b.add(groupStart, b.widen(b.minS(inTile, b.sub(size, 1))));
      // Not readOnly: the assembler could move such a load down to its use,
      // which would then wait for it.
      scales.push_back(b.named(
          "scale", b.load(b.getF32Type(),
                          b.offsetBytes(pointer, b.mul(index, sizeof(float))),
                          sizeof(float))));
    }
  };
  Value group = b.widen(tile.group);
  Value groupRows = kernel.problem.isMGrouped()
                        ? b.i64(0)
                        : b.mul(group, b.widen(kernel.sizes.rows));
  load(kernel.scaleA, groupRows, tile.row, kernel.sizes.rows,
       kernel.config.getConsumerRows());
  if (kernel.problem.hasScalesB)
    load(kernel.scaleB, b.mul(group, b.widen(kernel.sizes.columns)),
         tile.column, kernel.sizes.columns, kernel.config.columns);
  return scales;
}

void MatmulEpilogue::keepScales(const Tile &tile, ArrayRef<Value> scales) {
  KernelBuilder::Step step(b, "keep_scales");
  if (!kernel.problem.hasScalesA)
    return;
  // Some warp may still read those of the tile before, unless all of them met
  // since, to take a turn.
  if (kernel.config.kind != WgmmaSchedule::PingPong)
    createWarpgroupBarrier();
  int64_t rows = kernel.config.getConsumerRows();
  auto keep = [&](int64_t count, int64_t place) {
    for (int64_t step : getScaleSteps(count)) {
      Value scale = scales.consume_front();
      if (kernel.problem.reciprocalScales)
        scale = arith::DivFOp::create(b, b.f32(1), scale);
      // Scales may be anything where there is no product.
      scale = b.select(tile.isZero, b.f32(0), scale);
      Value inTile = b.add(thread, step);
      auto store = [&] {
        b.store(scale, getScaleAddress(kernel, consumer, inTile, place),
                sizeof(float));
      };
      if (step + kWarpgroupThreads <= count)
        store();
      else
        b.createIf(b.less(inTile, count), store);
    }
  };
  keep(rows, 0);
  if (kernel.problem.hasScalesB)
    keep(kernel.config.columns, rows);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Waits until at most `stores` TMA stores of the warp still read its buffers.
void MatmulEpilogue::createWaitForBuffer(int64_t stores) {
  KernelBuilder::Step step(b, "wait_for_buffer");
  b.createIf(isLeader, [&] { kernel::WaitStoresReadOp::create(b, stores); });
  b.syncSubgroup();
}

void MatmulEpilogue::storeTile(const Tile &tile, ArrayRef<Value> accumulators) {
  // Scales are in shared memory for everyone.
  createWarpgroupBarrier();
  int64_t boxBytes = box.rowBytes * ResultBox::kRows;
  int64_t boxesPerPhase = kHopperStagingBytes / boxBytes;
  int64_t boxes = kernel.config.columns / box.columns;
  int64_t phases = llvm::divideCeil(boxes, boxesPerPhase);
  for (auto [index, block] : llvm::enumerate(accumulators)) {
    Value inTile = b.add(b.mul(warp, kRowsPerWarp), index * kWgmmaRows);
    RowBlock rows{block, b.add(tile.row, inTile), Value(), {}};
    if (tile.rowEnd)
      rows.rowsLeft = b.named("rows_left", b.sub(tile.rowEnd, rows.row));
    if (kernel.problem.hasScalesA)
      for (int64_t half : {0, 1}) {
        Value row = b.add(inTile, b.divU(kernel.lane, kLanesPerRow));
        Value address =
            getScaleAddress(kernel, consumer, row, half * kFragmentRows);
        rows.scales[half] = b.named(
            "row_scale", b.load(b.getF32Type(), address, sizeof(float)));
      }
    for (int64_t phase : llvm::seq(phases)) {
      int64_t number = index * phases + phase;
      Value owner = b.add(b.mul(consumer, kWarpgroupWarps), warp);
      Value buffer =
          b.named("buffer", b.add(b.mul(owner, 2 * kHopperStagingBytes),
                                  kernel.memory.staging +
                                      number % 2 * kHopperStagingBytes));
      // With an odd number of phases a tile begins with the buffer that the
      // last one ended with.
      bool isRepeated = number == 0 && phases * accumulators.size() % 2;
      createWaitForBuffer(isRepeated ? 0 : 1);
      int64_t begin = phase * boxesPerPhase;
      int64_t end = std::min(boxes, begin + boxesPerPhase);
      auto getBox = [&](int64_t number) {
        return b.add(buffer, (number - begin) * boxBytes);
      };
      for (int64_t number : llvm::seq(begin, end))
        stageBox(tile, rows, number * box.columns, getBox(number));
      kernel::AsyncProxyFenceOp::create(b);
      b.syncSubgroup();
      for (int64_t number : llvm::seq(begin, end))
        storeBox(tile, rows, number * box.columns, getBox(number));
      // A group without stores keeps the count of buffers right.
      b.createIf(isLeader, [&] { kernel::CommitStoresOp::create(b); });
    }
  }
}

/// Loads the addends (bf16) of the thread's two neighbours in a row; zero
/// outside of the result. The loads are not read-only, as the result may lie in
/// the same memory.
SmallVector<Value> MatmulEpilogue::loadAddends(const Tile &tile,
                                               const RowBlock &rows,
                                               int64_t eight, int64_t half) {
  KernelBuilder::Step step(b, "load_addends");
  Value row = b.add(
      rows.row, b.add(b.divU(kernel.lane, kLanesPerRow), half * kFragmentRows));
  Value column = b.add(b.mul(b.remU(kernel.lane, kLanesPerRow), 2),
                       eight * kFragmentColumns);
  column = b.add(column, tile.column);
  Value isInside =
      b.bitAnd(b.less(row, tile.rowEnd ? tile.rowEnd : kernel.sizes.rows),
               b.less(column, kernel.sizes.columns));
  Value element = b.add(b.mul(b.widen(row), b.widen(kernel.sizes.addendRow)),
                        b.widen(column));
  if (!kernel.problem.isMGrouped())
    element =
        b.add(element, b.mul(b.widen(tile.group), kernel.sizes.addendGroup));
  Value pointer = b.offsetBytes(
      kernel.addend, b.mul(element, kernel.problem.getResultBytes()));
  Value pair = b.createIf(
      isInside, [&] { return b.loadWord(pointer); }, [&] { return b.i32(0); });
  return b.unpackFloats(pair, b.getBF16Type());
}

/// Returns the scaled results of the thread's two neighbours in a row, as
/// words.
SmallVector<Value> MatmulEpilogue::scalePair(const Tile &tile,
                                             const RowBlock &rows,
                                             int64_t eight, int64_t half) {
  KernelBuilder::Step step(b, "scale_pair");
  SmallVector<Value> values;
  Value columnScales;
  if (kernel.problem.hasScalesB) {
    Value column = b.mul(b.remU(kernel.lane, kLanesPerRow), 2);
    Value address = getScaleAddress(kernel, consumer, column,
                                    kernel.config.getConsumerRows() +
                                        eight * kFragmentColumns);
    columnScales =
        b.named("column_scales", b.load(VectorType::get(2, b.getF32Type()),
                                        address, 2 * sizeof(float)));
  }
  for (int64_t i : {0, 1}) {
    Value value = LLVM::ExtractValueOp::create(b, rows.accumulators,
                                               eight * 4 + half * 2 + i);
    Value columnScale;
    if (columnScales)
      columnScale = vector::ExtractOp::create(b, columnScales, i);
    for (Value scale : {rows.scales[half], columnScale})
      if (scale)
        value = arith::MulFOp::create(b, value, scale);
    values.push_back(value);
  }
  if (loadsAddend(kernel.problem))
    for (auto [value, term] :
         llvm::zip_equal(values, loadAddends(tile, rows, eight, half)))
      value = arith::AddFOp::create(b, value, term);
  return b.packFloats(values, kernel.problem.resultType);
}

/// Returns the address of a result box at `bytes` from the beginning of shared
/// memory.
Value MatmulEpilogue::getStaged(Value bytes) {
  return kernel::SharedPartOp::create(b, kernel::SharedUse::Memory, "result",
                                      kernel.getShared(bytes),
                                      /*stage=*/Value());
}

/// Writes the box of the tile's columns from `firstColumn` on to shared memory.
void MatmulEpilogue::stageBox(const Tile &tile, const RowBlock &rows,
                              int64_t firstColumn, Value box) {
  KernelBuilder::Step step(b, "stage_box");
  // Byte of a 16-byte chunk of a row (i32) in the box.
  auto getChunk = [&](Value row, Value chunk) {
    return getStaged(b.add(swizzle.createOffset(b, row, chunk), box));
  };
  if (kernel.problem.resultType.isF32()) {
    Value row = b.divU(kernel.lane, kLanesPerRow);
    Value pair = b.remU(kernel.lane, kLanesPerRow);
    for (int64_t column = 0; column < this->box.columns;
         column += kFragmentColumns)
      for (int64_t half : {0, 1}) {
        Value words = b.packWords(scalePair(
            tile, rows, (firstColumn + column) / kFragmentColumns, half));
        Value chunk =
            b.add(b.divU(pair, 2), column * sizeof(float) / kSwizzleChunkBytes);
        Value offset = b.mul(b.remU(pair, 2), 2 * sizeof(float));
        b.store(words,
                b.offsetBytes(getChunk(b.add(row, half * kFragmentRows), chunk),
                              offset),
                2 * sizeof(float));
      }
    return;
  }
  // Lanes 0 to 15 name the rows of the left two matrices, the others those of
  // the right ones.
  Value row = b.remU(kernel.lane, kRowsPerWarp);
  Value right = b.divU(kernel.lane, kRowsPerWarp);
  for (int64_t column = 0; column < this->box.columns;
       column += kMatrixColumns) {
    SmallVector<Value> words;
    for (int64_t matrix : {0, 1})
      for (int64_t half : {0, 1}) {
        int64_t eight = (firstColumn + column) / kFragmentColumns + matrix;
        words.push_back(scalePair(tile, rows, eight, half).front());
      }
    Value chunk = b.add(right, column * 2 / kSwizzleChunkBytes);
    kernel::StoreMatricesOp::create(b, getChunk(row, chunk), words);
  }
}

/// Adds f32 values that are held as words.
static Value addFloats(KernelBuilder &b, Value lhs, Value rhs) {
  auto floats =
      VectorType::get(kSwizzleChunkBytes / sizeof(float), b.getF32Type());
  auto toFloats = [&](Value words) -> Value {
    return LLVM::BitcastOp::create(b, floats, words);
  };
  Value sum = arith::AddFOp::create(b, toFloats(lhs), toFloats(rhs));
  return LLVM::BitcastOp::create(b, b.getWordsType(), sum);
}

/// Stores a box from shared memory to the result by TMA, or adds it there
/// (addsInMemory).
void MatmulEpilogue::storeBox(const Tile &tile, const RowBlock &rows,
                              int64_t firstColumn, Value box) {
  KernelBuilder::Step step(b, "store_box");
  auto storeWhole = [&] {
    b.createIf(isLeader, [&] {
      SmallVector<Value> coordinates{b.add(tile.column, firstColumn), rows.row};
      if (tile.split)
        coordinates.push_back(tile.split);
      else if (!kernel.problem.isMGrouped())
        coordinates.push_back(tile.group);
      // Weight gradients of few tokens are bound by writing: an H100 is 5%
      // faster if lines are written to memory at once.
      bool evictFirst = !kernel.problem.isMGrouped();
      if (addsInMemory(kernel.problem))
        kernel::TensorAddOp::create(b, getStaged(box), kernel.mapResult,
                                    coordinates, evictFirst);
      else
        kernel::TensorStoreOp::create(b, getStaged(box), kernel.mapResult,
                                      coordinates, evictFirst);
    });
  };
  auto storeAny = [&] {
    if (!rows.rowsLeft) {
      storeWhole();
      return;
    }
    b.createIf(b.lessEqual(b.i32(ResultBox::kRows), rows.rowsLeft), storeWhole,
               [&] { storeRows(tile, rows, firstColumn, box); });
  };
  // Nothing is added where there is no product.
  if (addsInMemory(kernel.problem))
    b.createIf(b.bitXor(tile.isZero, b.i1(true)), storeAny);
  else
    storeAny();
}

/// Stores, or adds, only the group's rows of a box, 16 bytes a lane at a time.
void MatmulEpilogue::storeRows(const Tile &tile, const RowBlock &rows,
                               int64_t firstColumn, Value box) {
  KernelBuilder::Step step(b, "store_rows");
  int64_t resultBytes = kernel.problem.getResultBytes();
  int64_t chunkColumns = kSwizzleChunkBytes / resultBytes;
  int64_t chunksPerRow = swizzle.rowBytes / kSwizzleChunkBytes;
  int64_t rowsAtOnce = kWarpgroupThreads / kWarpgroupWarps / chunksPerRow;
  Value chunk = b.remU(kernel.lane, chunksPerRow);
  Value column =
      b.add(b.add(tile.column, firstColumn), b.mul(chunk, chunkColumns));
  // Rows of the result are multiples of 16 bytes.
  Value hasColumns = b.less(column, kernel.sizes.columns);
  for (int64_t first = 0; first < ResultBox::kRows; first += rowsAtOnce) {
    Value row = b.add(b.divU(kernel.lane, chunksPerRow), first);
    Value isInside = b.bitAnd(hasColumns, b.less(row, rows.rowsLeft));
    b.createIf(isInside, [&] {
      Value from = b.add(swizzle.createOffset(b, row, chunk), box);
      Value words =
          b.load(b.getWordsType(), getStaged(from), kSwizzleChunkBytes);
      Value element = b.add(
          b.mul(b.widen(b.add(rows.row, row)), b.widen(kernel.sizes.resultRow)),
          b.widen(column));
      Value to = b.offsetBytes(kernel.result, b.mul(element, resultBytes));
      if (addsInMemory(kernel.problem))
        words = addFloats(b, words,
                          b.load(b.getWordsType(), to, kSwizzleChunkBytes));
      b.store(words, to, kSwizzleChunkBytes);
    });
  }
}
