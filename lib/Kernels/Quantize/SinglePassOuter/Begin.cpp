//===- Begin.cpp - How the single-pass outer kernel begins ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// No tile is loaded before mbarriers are initialised and the first tiles are
// computed. Scales wait until the partial slots of all blocks are zero. So the
// warps share the setup: the producer prefetches the ends of segments and
// computes its tiles, a reduce warp initialises mbarriers, the first scale warp
// begins the grid barrier, and convert and row warps zero partial slots. (With
// rows, the producer also waits until other roles have released registers, and
// so for all of that.)
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/WarpRoles.h"
#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Steps that other blocks wait for come first, while memory is idle. Once
/// tiles are being loaded, each round trip to memory takes several times
/// longer.
void SinglePassOuterKernel::initialize(Value numSlots) {
  kernel::LaunchDependentsOp::create(b);
  int64_t firstScaleWarp = tile.getFirstScaleWarp();
  int64_t producerWarp = tile.getProducerWarp();
  GridBarrierState none = gridBarrier->createNoState();
  auto beginToMeet = [&] {
    kernel::WaitForPrerequisitesOp::create(b);
    return b.createIf(
        b.equal(warp, firstScaleWarp),
        [&] { return gridBarrier->createBegin(); }, [&] { return none; });
  };
  auto prepareBarriersAndSlots = [&] {
    initializeBarriers();
    kernel::WaitForPrerequisitesOp::create(b);
    Value zeroes =
        both(b.lessEqual(b.i32(SinglePassOuterTile::kReduceWarps), warp),
             b.less(warp, firstScaleWarp));
    b.createIf(zeroes, [&] {
      zeroSlots(numSlots, SinglePassOuterTile::kReduceWarps, firstScaleWarp);
    });
    return none;
  };
  gridBarrierState = b.createIf(
      b.equal(warp, producerWarp),
      [&] {
        if (problem.jagged)
          prefetchEnds();
        b.syncSubgroup();
        return none;
      },
      [&] {
        GridBarrierState state =
            b.createIf(b.lessEqual(b.i32(firstScaleWarp), warp), beginToMeet,
                       prepareBarriersAndSlots);
        b.syncSubgroup();
        kernel::NamedBarrierOp::create(b, b.i32(kOthersBarrier),
                                       producerWarp * b.getSubgroupSize());
        return state;
      });
}

/// Prefetches the ends of the first segments to L2, before earlier kernels have
/// ended. Each lane fetches a sector: 256 ends in all, of which the first tiles
/// need 32. (Prefetching rows as early would delay the end of earlier kernels.)
void SinglePassOuterKernel::prefetchEnds() {
  Value offset = b.mul(lane, nvidia::kSectorBytes);
  b.createIf(b.less(offset, b.mul(segments, kWordBytes)), [&] {
    kernel::SectorPrefetchOp::create(b, b.offsetBytes(offsets, offset));
  });
}

/// Initialises all mbarriers by one lane, as lanes of a warp would be
/// serialized. Unrolled code is faster than loops.
void SinglePassOuterKernel::initializeBarriers() {
  KernelBuilder::Step step(b, "initialize_barriers");
  auto initializeSlots = [&](PanelEvent event, int64_t arrivals) {
    for (int64_t slot : llvm::seq(tile.getPanelSlots()))
      kernel::MBarrierInitOp::create(b, getBarrier(event, b.i32(slot)),
                                     arrivals);
  };
  Value isFirstWarp = b.equal(warp, 0);
  b.createIf(both(isFirstLane, isFirstWarp), [&] {
    for (Value map : {tileMap, boxMap, shareMap})
      kernel::MapPrefetchOp::create(b, map);
    // Every thread of the reduce warps and of one convert team releases a
    // stage.
    ring.createInit(/*fullArrivals=*/1, (SinglePassOuterTile::kReduceWarps +
                                         SinglePassOuterTile::kTeamWarps) *
                                            b.getSubgroupSize());
    initializeSlots(PanelEvent::Published, 1);
    initializeSlots(PanelEvent::Posted, SinglePassOuterTile::kReduceWarps);
    initializeSlots(PanelEvent::Scales, b.getSubgroupSize());
    kernel::MBarrierInitOp::create(b, readyBarrier, 1);
    if (tile.hasRows())
      initializeRows();
    // TMA and bulk copies arrive at some of these.
    kernel::MBarrierInitFenceOp::create(b);
  });
  b.syncSubgroup();
  b.createIf(isFirstWarp, [&] {
    kernel::NamedBarrierArriveOp::create(b, b.i32(kProducerBarrier),
                                         getProducerThreads());
  });
}

void SinglePassOuterKernel::initializeRows() {
  for (int64_t stage : llvm::seq(tile.rowStages)) {
    kernel::MBarrierInitOp::create(b, getRowBarrier(b.i32(stage)), 1);
    b.storeWord(b.i32(-1), getRowNumber(b.i32(stage)));
  }
  b.storeWord(b.i32(0), getTileProgress());
  b.storeWord(b.i32(0), getRowProgress());
}

int64_t SinglePassOuterKernel::getProducerThreads() const {
  return 2 * b.getSubgroupSize();
}

void SinglePassOuterKernel::beginProducer() {
  kernel::NamedBarrierOp::create(b, b.i32(kProducerBarrier),
                                 getProducerThreads());
}

/// Zeroes the partial slots of this block's spans. Only this block posts to
/// them before the grid barrier. Warps [firstWarp, endWarp) of the block take
/// part.
void SinglePassOuterKernel::zeroSlots(Value numSlots, int64_t firstWarp,
                                      int64_t endWarp) {
  int64_t firstThread = firstWarp * b.getSubgroupSize();
  int64_t threads = endWarp * b.getSubgroupSize() - firstThread;
  Value thread = b.sub(b.getThread(), firstThread);
  Value threadSlot = b.divU(thread, kLineChunks);
  Value grid = b.widen(numBlocks);
  Value chunk = b.mul(b.remU(thread, kLineChunks), kChunkBytes);
  Value span =
      b.add(b.getBlock(), b.mul(b.shiftRight(threadSlot, kSpanLog), grid));
  Value inSpan = b.bitAnd(threadSlot, kSpanTiles - 1);
  Value first = b.add(b.shiftLeft(span, kSpanLog), inSpan);
  Value step = b.mul(grid, threads / kLineChunks);
  b.createFor(first, numSlots, step, [&](Value slot) {
    Value offset = b.add(b.mul(slot, kLineBytes), chunk);
    b.store(b.zeroWords(), b.offsetBytes(partialSlots, offset), kChunkBytes);
  });
}

void SinglePassOuterKernel::meetOtherBlocks() {
  gridBarrier->createWait(gridBarrierState);
  b.createIf(isFirstLane, [&] { kernel::ArriveOp::create(b, readyBarrier); });
}
