//===- StageRingTest.cpp - Positions and phases of rings ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positions in a ring fold to constants if the counter is one. The kernel's
// arithmetic can therefore be compared with expected values.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/StageRing.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class StageRingTest : public BuilderFixture {};

TEST_F(StageRingTest, ParityChangesWithEveryRound) {
  for (int64_t stages : {2, 5, 6}) {
    StageRing ring(b, "ring", b.getDynamicShared(), stages);
    for (int64_t count = 0; count < 4 * stages; ++count) {
      RingPosition position = ring.getPosition(b.i32(count));
      EXPECT_EQ(valueOf(position.stage), count % stages);
      EXPECT_EQ(valueOf(position.parity), count / stages % 2);
    }
  }
}

TEST_F(StageRingTest, NextIsThePositionOneLater) {
  for (int64_t stages : {2, 5, 6}) {
    StageRing ring(b, "ring", b.getDynamicShared(), stages);
    RingPosition position = ring.getPosition(b.i32(0));
    for (int64_t count = 1; count < 4 * stages; ++count) {
      position = ring.getNext(position);
      RingPosition expected = ring.getPosition(b.i32(count));
      EXPECT_EQ(valueOf(position.stage), valueOf(expected.stage));
      EXPECT_EQ(valueOf(position.parity), valueOf(expected.parity));
    }
  }
}

TEST_F(StageRingTest, BeforeIsThePositionSomeStagesEarlier) {
  StageRing ring(b, "ring", b.getDynamicShared(), 5);
  for (int64_t count = 5; count < 20; ++count)
    for (int64_t back : {1, 4, 5}) {
      RingPosition position =
          ring.getBefore(ring.getPosition(b.i32(count)), b.i32(back));
      RingPosition expected = ring.getPosition(b.i32(count - back));
      EXPECT_EQ(valueOf(position.stage), valueOf(expected.stage));
      EXPECT_EQ(valueOf(position.parity), valueOf(expected.parity));
    }
}

/// In round 0 a producer does not wait; later it waits for releases of the
/// previous round. A consumer waits for the fill of its own round.
TEST_F(StageRingTest, WaitsForTheRightPhase) {
  StageRing ring(b, "ring", b.getDynamicShared(), 4);
  for (int64_t round : {0, 1, 2}) {
    RingPosition position = ring.getPosition(b.i32(4 * round + 3));
    ring.createWaitEmpty(position);
    ring.createWaitFull(position);
  }
  SmallVector<int64_t> parities;
  for (kernel::WaitParityOp wait : getAll<kernel::WaitParityOp>())
    parities.push_back(valueOf(wait.getParity()));
  EXPECT_EQ(parities, (SmallVector<int64_t>{1, 0, 0, 1, 1, 0}));
}

/// A stage was released in the previous round. With fewer earlier stages in
/// round 0, nothing was filled there, so the wait passes.
TEST_F(StageRingTest, WaitsForAnEarlierRelease) {
  StageRing ring(b, "ring", b.getDynamicShared(), 4);
  for (int64_t count : {1, 2, 6, 7})
    for (int64_t before : {4, 2})
      ring.createWaitReleased(ring.getPosition(b.i32(count)), b.i32(before));
  SmallVector<int64_t> parities;
  for (kernel::WaitParityOp wait : getAll<kernel::WaitParityOp>())
    parities.push_back(valueOf(wait.getParity()));
  EXPECT_EQ(parities, (SmallVector<int64_t>{1, 1, 1, 0, 0, 1, 0, 1}));
}

/// The mbarriers stay at the places that they have with all stages.
TEST_F(StageRingTest, UsesTheFirstStages) {
  StageRing ring(b, "ring", b.getDynamicShared(), 5),
      three(b, "three", b.getDynamicShared(), 3);
  ring.useFirst(b.i32(3));
  for (int64_t count = 3; count < 10; ++count) {
    RingPosition position = ring.getPosition(b.i32(count));
    for (auto [got, expected] :
         {std::pair(position, three.getPosition(b.i32(count))),
          std::pair(ring.getNext(position),
                    three.getPosition(b.i32(count + 1))),
          std::pair(ring.getBefore(position, b.i32(2)),
                    three.getPosition(b.i32(count - 2)))}) {
      EXPECT_EQ(valueOf(got.stage), valueOf(expected.stage));
      EXPECT_EQ(valueOf(got.parity), valueOf(expected.parity));
    }
  }
  StageRing five(b, "ring", b.getDynamicShared(), 5);
  auto offsetOf = [&](Value barrier) {
    auto part = barrier.getDefiningOp<kernel::SharedPartOp>();
    auto address = part.getAddress().getDefiningOp<LLVM::GEPOp>();
    return valueOf(address.getDynamicIndices()[0]);
  };
  for (int64_t stage : {0, 2}) {
    EXPECT_EQ(offsetOf(ring.getFullBarrier(b.i32(stage))),
              offsetOf(five.getFullBarrier(b.i32(stage))));
    EXPECT_EQ(offsetOf(ring.getEmptyBarrier(b.i32(stage))),
              offsetOf(five.getEmptyBarrier(b.i32(stage))));
  }
}

TEST_F(StageRingTest, EveryStageHasTwoBarriers) {
  EXPECT_EQ(6 * nvidia::kStageBarrierBytes, 96);
  StageRing ring(b, "ring", b.getDynamicShared(), 6);
  ring.createInit(/*fullArrivals=*/1, /*releases=*/4);
  SmallVector<int64_t> arrivals;
  for (kernel::MBarrierInitOp init : getAll<kernel::MBarrierInitOp>())
    arrivals.push_back(init.getArrivals());
  EXPECT_EQ(arrivals,
            (SmallVector<int64_t>{1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4}));
}

} // namespace
