//===- HopperTest.cpp - Tests of rings and their phases -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positions in a ring fold to constants when the count is one, so what a kernel
// computes can be compared with what it should.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Hopper.h"

#include "KernelFixture.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class HopperTest : public KernelFixture {
protected:
  HopperTest() {
    KernelSignature signature;
    signature.hasBlockCount = false;
    signature.threads = 128;
    b = std::make_unique<KernelBuilder>(module->getLoc(), kernels, "k",
                                        signature, *hooks);
  }

  static int64_t valueOf(Value value) {
    APInt constant;
    EXPECT_TRUE(matchPattern(value, m_ConstantInt(&constant)));
    return constant.getSExtValue();
  }

  std::unique_ptr<KernelBuilder> b;
};

TEST_F(HopperTest, ParityChangesWithEveryRound) {
  for (int64_t stages : {2, 5, 6}) {
    StageRing ring(*b, b->getDynamicShared(), stages);
    for (int64_t count = 0; count < 4 * stages; ++count) {
      RingPosition position = ring.getPosition(b->i32(count));
      EXPECT_EQ(valueOf(position.stage), count % stages);
      EXPECT_EQ(valueOf(position.parity), count / stages % 2);
    }
  }
}

TEST_F(HopperTest, NextIsThePositionOneLater) {
  for (int64_t stages : {2, 5, 6}) {
    StageRing ring(*b, b->getDynamicShared(), stages);
    RingPosition position = ring.getPosition(b->i32(0));
    for (int64_t count = 1; count < 4 * stages; ++count) {
      position = ring.getNext(position);
      RingPosition expected = ring.getPosition(b->i32(count));
      EXPECT_EQ(valueOf(position.stage), valueOf(expected.stage));
      EXPECT_EQ(valueOf(position.parity), valueOf(expected.parity));
    }
  }
}

/// A producer passes round 0 at once and later waits for the releases of the
/// round before; a consumer waits for the fill of its own round.
TEST_F(HopperTest, WaitsForTheRightPhase) {
  StageRing ring(*b, b->getDynamicShared(), 4);
  for (int64_t round : {0, 1, 2}) {
    RingPosition position = ring.getPosition(b->i32(4 * round + 3));
    ring.createWaitEmpty(position);
    ring.createWaitFull(position);
  }
  SmallVector<int64_t> parities;
  b->getKernel().walk([&](NVVM::MBarrierTryWaitOp wait) {
    // Each wait tries twice: once, and in a loop with a limit of time.
    parities.push_back(valueOf(wait.getStateOrPhase()));
  });
  EXPECT_EQ(parities,
            (SmallVector<int64_t>{1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0}));
}

TEST_F(HopperTest, EveryWaitIsBounded) {
  StageRing ring(*b, b->getDynamicShared(), 4);
  ring.createWaitFull(ring.getPosition(b->i32(0)));
  int64_t loops = 0, traps = 0;
  b->getKernel().walk([&](Operation *op) {
    loops += isa<scf::WhileOp>(op);
    traps += isa<LLVM::Trap>(op);
  });
  EXPECT_EQ(loops, 1);
  EXPECT_EQ(traps, 1);
}

} // namespace
