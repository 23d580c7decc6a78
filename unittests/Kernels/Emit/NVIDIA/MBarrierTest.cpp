//===- MBarrierTest.cpp - Tests of barriers in shared memory --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/MBarrier.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class MBarrierTest : public BuilderFixture {};

TEST_F(MBarrierTest, WaitsAreBounded) {
  createBarrierWait(b, b.getDynamicShared(), b.i32(0));
  EXPECT_EQ(getAll<NVVM::MBarrierTryWaitOp>().size(), 2u);
  EXPECT_EQ(getAll<scf::WhileOp>().size(), 1u);
  EXPECT_EQ(getAll<LLVM::Trap>().size(), 1u);
}

/// Most waits succeed at once, and the timer is slow.
TEST_F(MBarrierTest, FirstAttemptReadsNoTimer) {
  createBarrierWait(b, b.getDynamicShared(), b.i32(0));
  for (NVVM::GlobalTimerOp timer : getAll<NVVM::GlobalTimerOp>())
    EXPECT_TRUE(timer->getParentOfType<scf::IfOp>());
}

TEST_F(MBarrierTest, ExpectsBytes) {
  createArriveExpecting(b, b.getDynamicShared(), 4096);
  auto arrivals = getAll<NVVM::MBarrierArriveExpectTxOp>();
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(valueOf(arrivals.front().getTxcount()), 4096);
}

} // namespace
