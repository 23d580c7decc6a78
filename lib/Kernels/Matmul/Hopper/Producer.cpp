//===- Producer.cpp - Loads operands to shared memory ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/Meeting.h"
#include "Kernels/Emit/NVIDIA/WarpRoles.h"
#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Most tiles loaded ahead in K-grouped matmuls. Tiles of few tokens take less
/// than a stage and are limited by stores. An H100 writes up to 9% faster with
/// fewer loads in flight.
static constexpr int64_t kTilesAhead = 2;

/// Waits until consumers have released the stage, or one before it.
static void createWaitForStage(GroupedMatmulKernel &kernel, StageRing &ring,
                               const Tile &tile, RingPosition position) {
  KernelBuilder &b = kernel.b;
  if (kernel.problem.isMGrouped()) {
    ring.createWaitEmpty(position);
    return;
  }
  Value ahead = b.mul(tile.numStages, kTilesAhead);
  ring.createWaitReleased(position, b.minS(ahead, kernel.config.stages));
}

/// Loads one stage of both operands.
static void createStage(GroupedMatmulKernel &kernel, StageRing &ring,
                        const Tile &tile, Value stage, RingPosition position) {
  KernelBuilder &b = kernel.b;
  KernelBuilder::Step step(b, "load_stage");
  createWaitForStage(kernel, ring, tile, position);
  Value full = ring.getFullBarrier(position.stage);
  int64_t bytes = kernel.config.getStageBytes(/*isA=*/true) +
                  kernel.config.getStageBytes(/*isA=*/false);
  kernel::ArriveExpectTxOp::create(b, full, b.i32(bytes));
  Value along =
      b.add(tile.contraction, b.mul(stage, kernel.getStageElements()));
  for (bool isA : {true, false}) {
    Value place = kernel.getOffset(isA, position.stage);
    // The operand's rows (A) or columns (B) that the tile has.
    Value begin = isA ? tile.row : tile.column;
    int64_t extent = isA ? kernel.config.rows : kernel.config.columns;
    // A box of an MN-major operand is as wide as the swizzle.
    int64_t step = kernel.isMNMajor(isA) ? kernel.getBoxExtent() : extent;
    for (int64_t box : llvm::seq(extent / step)) {
      SmallVector<Value> coordinates{along, b.add(begin, box * step)};
      if (kernel.isMNMajor(isA))
        std::swap(coordinates[0], coordinates[1]);
      if (!isA && kernel.problem.hasExperts())
        coordinates.push_back(tile.group);
      Value shared = kernel.getShared(b.add(place, box * kernel.getBoxBytes()));
      kernel::TensorLoadOp::create(b, ring.inStage(position.stage, shared),
                                   isA ? kernel.mapA : kernel.mapB, coordinates,
                                   full);
    }
  }
}

//===----------------------------------------------------------------------===//
// Meetings
//===----------------------------------------------------------------------===//

/// Stages between two meetings (best-effort grid-wide syncs). Blocks that are
/// out of step miss the data that others loaded to L2. So many stages take 30
/// us; a meeting of blocks in step costs less than 0.1 us.
static constexpr int64_t kStagesBetweenMeetings = 160;

/// Stages that a producer loads between its arrival and its wait. They last as
/// long as a round trip to memory, so that producers in step do not stall.
static constexpr int64_t kStagesAfterArrival = 2;

/// Kernels for tiles of at most so many stages, if static, have no meetings, as
/// they have no registers left.
static constexpr int64_t kFewStages = 8;

namespace {
/// Synchronizes the producers of all blocks every `period` tiles (Meeting.h).
class ProducerMeetings {
public:
  ProducerMeetings(GroupedMatmulKernel &kernel, TileScheduler &scheduler);

  static bool areWorthwhile(const GroupedMatmulKernel &kernel);

  void beginTile(const Tile &tile);
  /// `stage` of the tile.
  void beginStage(Value stage);
  /// Leaves the meetings. `end` is the tile number after the walk's last tile.
  void finish(Value end);

private:
  KernelBuilder &b;
  Value blocks;
  /// Tiles of the walk between two meetings.
  Value period;
  Meeting meeting;
  /// State of the tile: the number of meetings so far, and whether it begins
  /// with one (i1).
  Value count, isMeeting;
};
} // namespace

/// Whether meetings pay off: tiles take nearly the same time, and are neither
/// few nor short. If times differ, only PingPong warpgroups go on while others
/// wait.
bool ProducerMeetings::areWorthwhile(const GroupedMatmulKernel &kernel) {
  if (kernel.config.splits > 1)
    return false;
  if (!kernel.problem.isMGrouped())
    return kernel.config.kind == WgmmaSchedule::PingPong;
  int64_t contraction = kernel.problem.sizes.contraction;
  return ShapedType::isDynamic(contraction) ||
         contraction > kFewStages * kernel.getStageElements();
}

/// Returns the stages between two meetings. Where operand rows share lines of
/// 128 bytes, two stages read each line. Only blocks close in time hit L2 both
/// times, so they meet at every tile.
static Value getStagesBetweenMeetings(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  if (!kernel.problem.isMGrouped())
    return b.i32(kStagesBetweenMeetings);
  Value beyondLine =
      b.remU(kernel.sizes.contraction, kernel.getStageElements());
  return b.select(b.equal(beyondLine, 0), b.i32(kStagesBetweenMeetings), 1);
}

ProducerMeetings::ProducerMeetings(GroupedMatmulKernel &kernel,
                                   TileScheduler &scheduler)
    : b(kernel.b), blocks(kernel.numBlocks),
      period(b.ceilDiv(getStagesBetweenMeetings(kernel),
                       b.maxS(scheduler.getMeanStages(), 1))),
      meeting(b, blocks) {}

void ProducerMeetings::beginTile(const Tile &tile) {
  // The walk has one of as many tiles as there are blocks.
  Value index = b.divU(tile.number, blocks);
  count = b.named("meetings", b.divU(index, period));
  isMeeting = b.named("is_meeting", b.bitAnd(b.equal(b.remU(index, period), 0),
                                             b.less(b.i32(0), index)));
  b.createIf(isMeeting, [&] { meeting.arrive(); });
}

void ProducerMeetings::beginStage(Value stage) {
  Value waits = b.bitAnd(isMeeting, b.equal(stage, kStagesAfterArrival));
  b.createIf(waits, [&] { meeting.wait(count); });
}

void ProducerMeetings::finish(Value end) {
  Value tiles = b.divU(end, blocks);
  meeting.leave(b.divU(b.sub(b.maxS(tiles, 1), 1), period));
}

//===----------------------------------------------------------------------===//
// Producer
//===----------------------------------------------------------------------===//

void fp8moe::buildMatmulProducer(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  kernel::SetRegistersOp::create(b, kernel::RegisterChange::Decrease,
                                 HopperMatmulConfig::kProducerRegisters);
  b.createIf(b.less(kernel.warp, 1), [&] {
    b.createIf(kernel::ElectOp::create(b), [&] {
      StageRing ring = kernel.getRing();
      TileScheduler scheduler(kernel);
      std::optional<ProducerMeetings> meetings;
      if (ProducerMeetings::areWorthwhile(kernel))
        meetings.emplace(kernel, scheduler);
      Value end =
          scheduler.forEachTile([&](const Tile &tile, Value stageCount) {
            if (meetings)
              meetings->beginTile(tile);
            RingPosition begin = ring.getPosition(stageCount);
            auto loadStage = [&](Value stage, ValueRange carried) {
              b.named("k_stage", stage);
              RingPosition position = RingPosition::unpackNamed(b, carried);
              if (meetings)
                meetings->beginStage(stage);
              createStage(kernel, ring, tile, stage, position);
              RingPosition next = ring.getNext(position);
              return SmallVector<Value>{next.stage, next.parity};
            };
            Value zero = b.i32(0);
            SmallVector<Value> init{begin.stage, begin.parity};
            // With a meeting in each copy, an unrolled loop needs more
            // registers than producers have.
            if (meetings)
              b.createRareFor(zero, tile.numStages, 1, init, loadStage);
            else
              b.createFor(zero, tile.numStages, 1, init, loadStage);
          });
      if (meetings)
        meetings->finish(end);
    });
  });
}
