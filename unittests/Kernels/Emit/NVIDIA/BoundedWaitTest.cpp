//===- BoundedWaitTest.cpp - Tests of waits that end ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/BoundedWait.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class BoundedWaitTest : public BuilderFixture {
protected:
  Value wait(WaitClock clock) {
    return createBoundedWait(
               b, clock, b.i32(7),
               [&](ValueRange carried) { return b.less(carried[0], 9); },
               [&](ValueRange carried) {
                 return SmallVector<Value>{b.add(carried[0], 1)};
               })
        .front();
  }
  /// The limit of the only comparison of 64 bits.
  int64_t getLimit() {
    for (arith::CmpIOp compare : getAll<arith::CmpIOp>())
      if (compare.getLhs().getType().isInteger(64))
        return valueOf(compare.getRhs());
    return 0;
  }
};

TEST_F(BoundedWaitTest, CarriesValues) {
  Value result = wait(WaitClock::Cycles);
  auto loop = result.getDefiningOp<scf::WhileOp>();
  ASSERT_TRUE(loop);
  EXPECT_EQ(valueOf(loop.getInits().front()), 7);
}

TEST_F(BoundedWaitTest, TwoSecondsOfCycles) {
  wait(WaitClock::Cycles);
  EXPECT_EQ(getAll<NVVM::Clock64Op>().size(), 2u);
  EXPECT_TRUE(getAll<NVVM::GlobalTimerOp>().empty());
  EXPECT_EQ(getLimit(), 4000000000);
}

TEST_F(BoundedWaitTest, TwoSecondsOfTheTimer) {
  wait(WaitClock::GlobalTimer);
  EXPECT_EQ(getAll<NVVM::GlobalTimerOp>().size(), 2u);
  EXPECT_TRUE(getAll<NVVM::Clock64Op>().empty());
  EXPECT_EQ(getLimit(), 2000000000);
}

} // namespace
