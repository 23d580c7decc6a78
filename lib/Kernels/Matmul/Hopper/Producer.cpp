//===- Producer.cpp - Loads operands to shared memory ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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
//
// A meeting is a best-effort grid-wide sync of the producers of all blocks, so
// that blocks which read the same data stay in step. It orders no memory
// accesses: only performance depends on it. Blocks need not be resident at
// once: a wait that times out is short, and disables all later waits of the
// launch.
//
// Meetings take one word of global memory, a variable of the kernel. It is zero
// again when every block has left. Concurrent launches of a kernel share the
// word: they may wait too little then, or time out once. (A thousand blocks or
// more may leave a value that disables waiting.)
//===----------------------------------------------------------------------===//

/// Stages between two meetings. Blocks that are out of step miss the data that
/// others loaded to L2. So many stages take 30 us; a meeting of blocks in step
/// costs less than 0.1 us.
static constexpr int64_t kStagesBetweenMeetings = 160;

/// Stages that a producer loads between its arrival and its wait. They last as
/// long as a round trip to memory, so that producers in step do not stall.
static constexpr int64_t kStagesAfterArrival = 2;

/// Kernels for tiles of at most so many stages, if static, have no meetings, as
/// they have no registers left.
static constexpr int64_t kFewStages = 8;

/// The word: arrivals of blocks that are still there in the lower bits, above
/// them how many have left. That makes it larger than any number of arrivals
/// that is waited for, as does the topmost bit once a wait was in vain.
static constexpr int64_t kArrivalBits = 20;
static constexpr int64_t kLeft = int64_t(1) << kArrivalBits;
static constexpr int32_t kInVain = std::numeric_limits<int32_t>::min();
static constexpr int32_t kCounts = ~kInVain;

/// A look at the word takes most of a microsecond on an H100, so this is a
/// tenth of a millisecond: blocks that begin together are not that far apart.
static constexpr int64_t kMostLooks = 128;

namespace {
/// The meetings of a producer, one every `period` tiles.
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
  Value update(LLVM::AtomicBinOp operation, Value number);
  void wait();

  KernelBuilder &b;
  Value blocks;
  /// Tiles of the walk between two meetings.
  Value period;
  Value word;
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
      word(b.allocateGlobalWord("meeting")) {}

/// Returns the word before `operation` puts `number` in.
Value ProducerMeetings::update(LLVM::AtomicBinOp operation, Value number) {
  return LLVM::AtomicRMWOp::create(b, operation, word, number,
                                   LLVM::AtomicOrdering::monotonic,
                                   b.getTarget().getDeviceScope());
}

void ProducerMeetings::beginTile(const Tile &tile) {
  // The walk has one of as many tiles as there are blocks.
  Value index = b.divU(tile.number, blocks);
  count = b.named("meetings", b.divU(index, period));
  isMeeting = b.named("is_meeting", b.bitAnd(b.equal(b.remU(index, period), 0),
                                             b.less(b.i32(0), index)));
  b.createIf(isMeeting, [&] { update(LLVM::AtomicBinOp::add, b.i32(1)); });
}

void ProducerMeetings::beginStage(Value stage) {
  Value waits = b.bitAnd(isMeeting, b.equal(stage, kStagesAfterArrival));
  b.createIf(waits, [&] { wait(); });
}

/// Waits until all blocks have arrived at meetings 1 to `count`, or one has
/// left.
void ProducerMeetings::wait() {
  KernelBuilder::Step step(b, "wait_for_meeting");
  Value all = b.mul(count, blocks);
  auto isMissing = [&](Value seen) {
    return b.compare(arith::CmpIPredicate::ult, seen, all);
  };
  SmallVector<Value> last = b.createWhile(
      b.i32(0), {b.getI32Type(), b.getI32Type()},
      [&](ValueRange looks) {
        Value seen = b.loadRelaxed(word);
        Value goesOn =
            b.bitAnd(isMissing(seen), b.less(looks.front(), kMostLooks));
        return std::pair(goesOn, SmallVector<Value>{looks.front(), seen});
      },
      [&](ValueRange carried) {
        return SmallVector<Value>{b.add(carried.front(), 1)};
      });
  b.createIf(isMissing(last[1]),
             [&] { update(LLVM::AtomicBinOp::_or, b.i32(kInVain)); });
}

void ProducerMeetings::finish(Value end) {
  Value tiles = b.divU(end, blocks);
  Value arrivals = b.divU(b.sub(b.maxS(tiles, 1), 1), period);
  KernelBuilder::Step step(b, "leave_meeting");
  Value before = update(LLVM::AtomicBinOp::add, b.sub(b.i32(kLeft), arrivals));
  Value left = b.add(b.divU(b.bitAnd(before, kCounts), kLeft), 1);
  // More have left where several launches share the word. To subtract loses
  // nothing that others add meanwhile, as a store would.
  b.createIf(b.equal(b.remU(left, blocks), 0), [&] {
    update(LLVM::AtomicBinOp::_and, b.i32(kCounts));
    update(LLVM::AtomicBinOp::add, b.mul(blocks, -kLeft));
  });
}

//===----------------------------------------------------------------------===//
// Producer
//===----------------------------------------------------------------------===//

void fp8moe::buildMatmulProducer(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  kernel::SetRegistersOp::create(b, kernel::RegisterChange::Decrease,
                                 HopperMatmulConfig::kProducerRegisters);
  b.createIf(b.equal(kernel.warp, 0), [&] {
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
