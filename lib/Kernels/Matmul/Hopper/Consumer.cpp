//===- Consumer.cpp - Multiplies tiles ------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A consumer is a warpgroup. For each of its tiles it waits for stages of
// operands, multiplies them, releases them, and stores the result.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/NVIDIA/WarpRoles.h"
#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// IDs of the two named barriers by which ping-pong consumers take turns: this
/// one and the next.
static constexpr int64_t kFirstTurnBarrier = 3;
/// ID of the named barrier of cooperative consumers, which take no turns.
static constexpr int64_t kCooperativeBarrier = 3;

/// wgmma instructions for one stage of 128 bytes.
static constexpr int64_t kStepsPerStage = kSwizzleRowBytes / kWgmmaBytes;

namespace {
/// Builds one consumer.
class Consumer {
public:
  Consumer(GroupedMatmulKernel &kernel, Value index)
      : kernel(kernel), b(kernel.b), index(index), ring(kernel.getRing()),
        epilogue(kernel, index), partialSums(kernel, index),
        shape{kernel.config.columns, kernel.problem.aType, kernel.problem.bType,
              kernel.problem.mnMajorA, kernel.problem.mnMajorB},
        numRowBlocks(kernel.config.getConsumerRows() / kWgmmaRows) {
    isFirstLane = b.named("is_first_lane", b.equal(kernel.lane, 0));
    thread = b.bitAnd(b.narrow(b.getThread()), kWarpgroupThreads - 1);
    Value base =
        b.narrow(LLVM::PtrToIntOp::create(b, b.getI64Type(), kernel.shared));
    auto createDescriptor = [&](bool isA) {
      Value address = b.add(base, getOffset(isA, b.i32(0)));
      return createWgmmaDescriptor(b, address, kernel.getDescriptorBits(isA));
    };
    descriptorA = b.named("descriptor_a", createDescriptor(/*isA=*/true));
    descriptorB = b.named("descriptor_b", createDescriptor(/*isA=*/false));
  }

  void build();

private:
  /// A tile's accumulators, one struct for each 64 rows. The stage that is not
  /// released yet, if any. The number of parts that are summed in memory (null
  /// without partial sums).
  struct Product {
    SmallVector<Value> accumulators;
    Value lastStage;
    Value numParts;
  };
  /// A part of a tile's stages: their number, and whether they begin the tile
  /// (i1).
  struct Part {
    Value numStages, beginsTile;
  };

  void takeTurn();
  void passTurn();
  Product multiply(const Tile &tile, Value stageCount);
  Product multiplyParts(const Tile &tile, RingPosition &position,
                        ArrayRef<Value> sums);
  Product multiplyWholeStages(const Tile &tile, const Part &part,
                              RingPosition &position, ArrayRef<Value> sums);
  Product multiplyLastStage(const Tile &tile, const Part &part,
                            RingPosition position, Product product);
  void complete(Product &product);
  void addStage(Value stage, Value isFurther, MutableArrayRef<Value> sums);
  void addStagePromoted(Value stage, MutableArrayRef<Value> sums);
  void release(Value stage, Value condition);

  bool isCooperative() const {
    return kernel.config.kind == WgmmaSchedule::Cooperative;
  }
  /// Returns the shared memory offset of an operand in a stage; for A, that of
  /// this consumer's rows.
  Value getOffset(bool isA, Value stage);
  Value getStageDescriptor(bool isA, Value stage) {
    Value bytes = b.mul(stage, kernel.config.getStageBytes(isA));
    return ring.inStage(stage, advanceWgmmaDescriptor(
                                   b, isA ? descriptorA : descriptorB, bytes));
  }
  /// Returns the descriptor of a block of 64 rows of A. If A is MN-major, the
  /// block is a box.
  Value getRowBlock(Value descriptor, int64_t rowBlock) {
    return advanceWgmmaDescriptor(b, descriptor,
                                  rowBlock * kWgmmaRows * kSwizzleRowBytes);
  }

  /// Returns the descriptor of one wgmma's part of a stage.
  Value getStep(bool isA, Value descriptor, int64_t step) {
    return advanceWgmmaDescriptor(b, descriptor,
                                  step * kernel.getStepBytes(isA));
  }

  void maskHead(Value stage, Value isFirst, const Tile &tile);
  void maskTail(Value stage, Value isLast, const Tile &tile);
  void maskChunk(Value stage, Value chunk, Value low, Value high);
  void clearPositions(Value stage, Value begin, Value end);
  void publishMasks();

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  Value index;
  StageRing ring;
  MatmulEpilogue epilogue;
  PartialSums partialSums;
  WgmmaShape shape;
  int64_t numRowBlocks;
  /// Thread index in the warpgroup; i1: the thread is the first of its warp.
  Value thread, isFirstLane;
  Value descriptorA, descriptorB;
};
} // namespace

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Waits for this consumer's turn at the tensor cores. Turns alternate by
/// tiles, as do the stages of the ring. Without turns a consumer could be two
/// tiles ahead, and take a stage of its next tile for one of this tile. A turn
/// ends when the last stage is full; its wgmmas in flight keep the tensor cores
/// busy.
void Consumer::takeTurn() {
  if (!isCooperative())
    kernel::NamedBarrierOp::create(
        b, b.named("own_turn", b.add(index, kFirstTurnBarrier)),
        2 * kWarpgroupThreads);
}

void Consumer::passTurn() {
  if (!isCooperative())
    kernel::NamedBarrierArriveOp::create(
        b, b.named("other_turn", b.sub(b.i32(kFirstTurnBarrier + 1), index)),
        2 * kWarpgroupThreads);
}

void Consumer::build() {
  kernel::SetRegistersOp::create(b, kernel::RegisterChange::Increase,
                                 HopperMatmulConfig::kConsumerRegisters);
  Value isSecond = b.equal(index, 1);
  // The first turn is the first consumer's.
  if (!isCooperative())
    b.createIf(isSecond, [&] { passTurn(); });
  Tile mine;
  SmallVector<Value> scales;
  Product product;
  TileScheduler scheduler(kernel, isCooperative() ? Value() : isSecond);
  scheduler.forEachTile(
      [&](const Tile &tile, Value stageCount) {
        mine = tile;
        if (isCooperative())
          mine.row =
              b.add(tile.row, b.mul(index, kernel.config.getConsumerRows()));
        scales = epilogue.loadScales(mine);
        takeTurn();
        product = multiply(mine, stageCount);
      },
      [&] {
        epilogue.keepScales(mine, scales);
        complete(product);
        if (product.numParts)
          partialSums.addTo(product.accumulators, product.numParts);
        epilogue.storeTile(mine, product.accumulators);
      });
  epilogue.finish();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value Consumer::getOffset(bool isA, Value stage) {
  Value offset = kernel.getOffset(isA, stage);
  if (!isA || !isCooperative())
    return offset;
  return b.add(
      offset, b.mul(index, kernel.config.getConsumerRows() * kSwizzleRowBytes));
}

void Consumer::release(Value stage, Value condition) {
  b.createIf(b.bitAnd(condition, isFirstLane),
             [&] { ring.createRelease(stage); });
}

/// Waits for wgmmas in flight, so that the accumulators may be read. Releases
/// the tile's last stage.
void Consumer::complete(Product &product) {
  kernel::WgmmaWaitOp::create(b, 0);
  if (product.lastStage)
    release(product.lastStage, b.i1(true));
  for (Value &accumulators : product.accumulators)
    accumulators =
        b.named("sums", kernel::WgmmaResultsOp::create(b, accumulators));
}

/// Waits for all stages of a tile and issues their wgmmas, then passes the turn
/// on.
Consumer::Product Consumer::multiply(const Tile &tile, Value stageCount) {
  RingPosition position = ring.getPosition(stageCount);
  // Sums in the tensor cores begin with the first instruction.
  Value first = kernel.problem.promoted ? createZeroAccumulators(b, shape)
                                        : createUndefAccumulators(b, shape);
  Product product{SmallVector<Value>(numRowBlocks, first), Value(), Value()};
  Part part{tile.numStages, b.i1(true)};
  if (hasPartialSums(kernel.problem)) {
    product = multiplyParts(tile, position, product.accumulators);
    part.numStages = b.sub(part.numStages,
                           b.mul(product.numParts, partialSums.getNumStages()));
    part.beginsTile = b.equal(product.numParts, 0);
  }
  Value numParts = product.numParts;
  if (kernel.endsInsideStages()) {
    Part whole{b.sub(part.numStages, 1), part.beginsTile};
    product = multiplyWholeStages(tile, whole, position, product.accumulators);
    product = multiplyLastStage(tile, part, position, product);
  } else {
    product = multiplyWholeStages(tile, part, position, product.accumulators);
    passTurn();
  }
  product.numParts = numParts;
  return product;
}

/// Computes all parts but the last of a contraction that is longer than
/// kFastSumElements, within this turn. Its loop is separate, so that the main
/// loop stays as short as without it. Accumulators are carried through all
/// loops although their values are not needed: fresh ones would take registers.
Consumer::Product Consumer::multiplyParts(const Tile &tile,
                                          RingPosition &position,
                                          ArrayRef<Value> sums) {
  Value numParts = partialSums.countParts(tile.numStages);
  SmallVector<Value> init{position.stage, position.parity};
  init.append(sums.begin(), sums.end());
  SmallVector<Value> results = b.createRareFor(
      b.i32(0), numParts, 1, init, [&](Value part, ValueRange carried) {
        RingPosition here = RingPosition::unpackNamed(b, carried);
        Value isFirst = b.equal(part, 0);
        Product product = multiplyWholeStages(
            tile, {b.i32(partialSums.getNumStages()), isFirst}, here,
            SmallVector<Value>(carried.drop_front(2)));
        complete(product);
        partialSums.add(product.accumulators, isFirst);
        SmallVector<Value> yielded{here.stage, here.parity};
        yielded.append(product.accumulators);
        return yielded;
      });
  position = {results[0], results[1]};
  return {SmallVector<Value>(ArrayRef(results).drop_front(2)), Value(),
          numParts};
}

/// Issues the wgmmas of one stage. They ignore the old sums when `isFurther`
/// (i32) is 0.
void Consumer::addStage(Value stage, Value isFurther,
                        MutableArrayRef<Value> sums) {
  KernelBuilder::Step step(b, "multiply_stage");
  Value a = getStageDescriptor(/*isA=*/true, stage);
  Value bb = getStageDescriptor(/*isA=*/false, stage);
  kernel::WgmmaFenceOp::create(b);
  for (int64_t step : llvm::seq(kStepsPerStage))
    for (auto [rowBlock, sum] : llvm::enumerate(sums))
      sum = createWgmma(b, shape,
                        getStep(/*isA=*/true, getRowBlock(a, rowBlock), step),
                        getStep(/*isA=*/false, bb, step), sum,
                        step == 0 ? isFurther : b.i32(1));
  kernel::WgmmaCommitOp::create(b);
}

/// Adds the products of one stage in f32 (promoted accumulation). Returns after
/// the wgmmas are complete.
void Consumer::addStagePromoted(Value stage, MutableArrayRef<Value> sums) {
  Value a = getStageDescriptor(/*isA=*/true, stage);
  Value bb = getStageDescriptor(/*isA=*/false, stage);
  for (auto [rowBlock, sum] : llvm::enumerate(sums)) {
    // One row block at a time: its products need registers beside all sums.
    Value products = createUndefAccumulators(b, shape);
    kernel::WgmmaFenceOp::create(b);
    for (int64_t step : llvm::seq(kStepsPerStage))
      products = createWgmma(
          b, shape, getStep(/*isA=*/true, getRowBlock(a, rowBlock), step),
          getStep(/*isA=*/false, bb, step), products, b.i32(step != 0));
    kernel::WgmmaCommitOp::create(b);
    kernel::WgmmaWaitOp::create(b, 0);
    if (rowBlock + 1 == sums.size())
      release(stage, b.i1(true));
    sum = addAccumulators(b, sum, kernel::WgmmaResultsOp::create(b, products));
  }
}

Consumer::Product Consumer::multiplyWholeStages(const Tile &tile,
                                                const Part &part,
                                                RingPosition &position,
                                                ArrayRef<Value> sums) {
  KernelBuilder::Step step(b, "multiply_stages");
  bool promoted = kernel.problem.promoted;
  SmallVector<Value> init{position.stage, position.parity, position.stage};
  init.append(sums.begin(), sums.end());
  SmallVector<Value> results = b.createFor(
      b.i32(0), part.numStages, 1, init, [&](Value count, ValueRange carried) {
        RingPosition here = RingPosition::unpackNamed(b, carried);
        Value lastStage = b.named("last_stage", carried[2]);
        SmallVector<Value> sums(carried.drop_front(3));
        b.named("k_stage", count);
        for (Value sum : sums)
          b.named("sums", sum);
        ring.createWaitFull(here);
        Value isFurther = b.named("is_further", b.isNonZero(count));
        maskHead(here.stage, b.bitAnd(b.bitXor(isFurther, 1), part.beginsTile),
                 tile);
        if (!kernel.endsInsideStages())
          maskTail(here.stage, b.equal(b.add(count, 1), part.numStages), tile);
        if (promoted) {
          addStagePromoted(here.stage, sums);
        } else {
          addStage(here.stage, b.zeroExtend(b.getI32Type(), isFurther), sums);
          // The stage before is done when only this one's are under way.
          kernel::WgmmaWaitOp::create(b, 1);
          release(lastStage, isFurther);
        }
        RingPosition next = ring.getNext(here);
        SmallVector<Value> yielded{next.stage, next.parity, here.stage};
        yielded.append(sums);
        return yielded;
      });
  position = {results[0], results[1]};
  return {SmallVector<Value>(ArrayRef(results).drop_front(3)),
          promoted ? Value() : results[2], Value()};
}

/// Multiplies a group's last stage only as far as it has data. The rest of its
/// last 32 bytes are zeros.
Consumer::Product Consumer::multiplyLastStage(const Tile &tile,
                                              const Part &part,
                                              RingPosition position,
                                              Product product) {
  ring.createWaitFull(position);
  Value before = b.sub(part.numStages, 1);
  maskHead(position.stage, b.bitAnd(b.equal(before, 0), part.beginsTile), tile);
  maskTail(position.stage, b.i1(true), tile);
  Value lastStep = b.divU(b.maxS(b.sub(tile.lastBytes, 1), 0), kWgmmaBytes);
  Value a = getStageDescriptor(/*isA=*/true, position.stage);
  Value bb = getStageDescriptor(/*isA=*/false, position.stage);
  SmallVector<Value> sums = b.createFor(
      b.i32(0), b.add(lastStep, 1), 1, product.accumulators,
      [&](Value step, ValueRange carried) {
        Value offsetA = b.mul(step, kernel.getStepBytes(/*isA=*/true));
        Value offsetB = b.mul(step, kernel.getStepBytes(/*isA=*/false));
        Value isFurther = b.isNonZero(b.add(before, step));
        // Inside of the loop, so that LLVM does not unroll it.
        kernel::WgmmaFenceOp::create(b);
        SmallVector<Value> next;
        for (auto [rowBlock, sum] : llvm::enumerate(carried))
          next.push_back(createWgmma(
              b, shape,
              advanceWgmmaDescriptor(b, getRowBlock(a, rowBlock), offsetA),
              advanceWgmmaDescriptor(b, bb, offsetB), sum,
              b.zeroExtend(b.getI32Type(), isFurther)));
        return next;
      });
  // ptxas wants one between the instructions of the loop and their group.
  kernel::WgmmaFenceOp::create(b);
  kernel::WgmmaCommitOp::create(b);
  // A last stage may be a single step, which is over before the turn is taken
  // unless what comes before it is still under way.
  passTurn();
  kernel::WgmmaWaitOp::create(b, 1);
  release(product.lastStage, b.isNonZero(before));
  return {sums, position.stage, Value()};
}

//===----------------------------------------------------------------------===//
// Bytes of other groups
//===----------------------------------------------------------------------===//

/// Keeps bytes [low, high) of a chunk in every row of the K-major operands, and
/// zeroes the others: zero times a NaN of another group would be NaN. Two
/// threads mask a row, each with its own arguments. Cooperative consumers mask
/// half of the rows of B each.
void Consumer::maskChunk(Value stage, Value chunk, Value low, Value high) {
  KernelBuilder::Step step(b, "mask_chunk");
  if (kernel.isMNMajor(/*isA=*/true) && kernel.isMNMajor(/*isA=*/false))
    return;
  Swizzle swizzle = Swizzle::get(kSwizzleRowBytes);
  SmallVector<Value> masks;
  for (int64_t word : llvm::seq<int64_t>(4)) {
    Value first = b.i32(word * kWordBytes);
    masks.push_back(
        b.bitAnd(createByteMask(b, b.sub(high, first)),
                 b.bitXor(createByteMask(b, b.sub(low, first)), -1)));
  }
  auto maskRows = [&](Value operand, Value begin, int64_t rows) {
    b.createFor(b.add(begin, b.divU(thread, 2)), b.add(begin, rows),
                kWarpgroupThreads / 2, [&](Value row) {
                  Value offset = swizzle.createOffset(b, row, chunk);
                  Value pointer = ring.inStage(
                      stage, kernel.getShared(b.add(operand, offset)));
                  SmallVector<Value> words = b.unpackWords(
                      b.load(b.getWordsType(), pointer, kSwizzleChunkBytes));
                  for (auto [word, mask] : llvm::zip_equal(words, masks))
                    word = b.bitAnd(word, mask);
                  b.store(b.packWords(words), pointer, kSwizzleChunkBytes);
                });
  };
  if (!kernel.isMNMajor(/*isA=*/true))
    maskRows(getOffset(/*isA=*/true, stage), b.i32(0),
             kernel.config.getConsumerRows());
  if (kernel.isMNMajor(/*isA=*/false))
    return;
  int64_t rowsOfB = kernel.config.columns / (isCooperative() ? 2 : 1);
  maskRows(getOffset(/*isA=*/false, stage),
           isCooperative() ? b.mul(index, rowsOfB) : b.i32(0), rowsOfB);
}

/// Zeroes positions [begin, end) of the contraction in MN-major operands: whole
/// rows of 128 bytes in each box. Cooperative consumers share the work on B.
void Consumer::clearPositions(Value stage, Value begin, Value end) {
  constexpr int64_t kChunks = kSwizzleRowBytes / kSwizzleChunkBytes;
  auto clear = [&](Value operand, int64_t extent, bool isShared) {
    int64_t chunks = extent / kernel.getBoxExtent() * kChunks;
    Value first = thread;
    if (isShared)
      first = b.add(thread, b.mul(index, kWarpgroupThreads));
    Value zero = b.packWords(SmallVector<Value>(4, b.i32(0)));
    b.createFor(
        first, b.mul(b.sub(end, begin), chunks),
        kWarpgroupThreads * (isShared ? 2 : 1), [&](Value item) {
          Value position = b.add(begin, b.divU(item, chunks));
          Value chunk = b.remU(item, chunks);
          Value box = b.divU(chunk, kChunks);
          Value offset =
              b.add(b.mul(box, kernel.getBoxBytes()),
                    b.add(b.mul(position, kSwizzleRowBytes),
                          b.mul(b.remU(chunk, kChunks), kSwizzleChunkBytes)));
          Value pointer = kernel.getShared(b.add(operand, offset));
          b.store(zero, ring.inStage(stage, pointer), kSwizzleChunkBytes);
        });
  };
  if (kernel.isMNMajor(/*isA=*/true))
    clear(getOffset(/*isA=*/true, stage), kernel.config.getConsumerRows(),
          false);
  if (kernel.isMNMajor(/*isA=*/false))
    clear(getOffset(/*isA=*/false, stage), kernel.config.columns,
          isCooperative());
}

/// Makes masked bytes visible to the tensor cores: fences the async proxy, and
/// waits for the warpgroup, or for both when they share B. Both then call this
/// equally often, as they have the same tiles.
void Consumer::publishMasks() {
  kernel::AsyncProxyFenceOp::create(b);
  if (isCooperative())
    kernel::NamedBarrierOp::create(b, b.i32(kCooperativeBarrier),
                                   2 * kWarpgroupThreads);
  else
    kernel::NamedBarrierOp::create(b, b.add(index, 1), kWarpgroupThreads);
}

/// Zeroes the bytes before the group in the first chunk of its first stage.
void Consumer::maskHead(Value stage, Value isFirst, const Tile &tile) {
  KernelBuilder::Step step(b, "mask_head");
  if (!kernel.needsHeadMask())
    return;
  Value hasHead = b.isNonZero(tile.headBytes);
  b.createIf(b.bitAnd(isFirst, hasHead), [&] {
    Value odd = b.bitAnd(thread, 1);
    Value low = b.select(b.equal(odd, 0), tile.headBytes, 0);
    maskChunk(stage, odd, low, b.i32(kSwizzleChunkBytes));
    clearPositions(stage, b.i32(0),
                   b.divU(tile.headBytes, kernel.problem.getElementBytes()));
    publishMasks();
  });
}

/// Zeroes the bytes after the group in its last stage, as far as they are
/// multiplied.
void Consumer::maskTail(Value stage, Value isLast, const Tile &tile) {
  KernelBuilder::Step step(b, "mask_tail");
  if (!kernel.needsTailMask())
    return;
  int64_t span = kernel.endsInsideStages() ? kWgmmaBytes : kSwizzleRowBytes;
  Value begin = b.bitAnd(b.maxS(b.sub(tile.lastBytes, 1), 0), -span);
  Value hasTail = b.less(b.sub(tile.lastBytes, begin), span);
  b.createIf(b.bitAnd(isLast, hasTail), [&] {
    Value first = b.divU(begin, kSwizzleChunkBytes);
    for (int64_t chunk = 0; chunk < span / kSwizzleChunkBytes; chunk += 2) {
      Value mine = b.add(first, b.add(b.bitAnd(thread, 1), chunk));
      Value high = b.sub(tile.lastBytes, b.mul(mine, kSwizzleChunkBytes));
      maskChunk(stage, mine, b.i32(0), high);
    }
    int64_t elementBytes = kernel.problem.getElementBytes();
    clearPositions(stage, b.divU(tile.lastBytes, elementBytes),
                   b.divU(b.add(begin, span), elementBytes));
    publishMasks();
  });
}

void fp8moe::buildMatmulConsumer(GroupedMatmulKernel &kernel, Value index) {
  Consumer(kernel, index).build();
}
