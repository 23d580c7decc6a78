//===- GridBarrierTest.cpp - Tests of the barrier of all blocks -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/GridBarrier.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class GridBarrierTest : public BuilderFixture {};

/// Loops carry the state, so warps that do not take part need a state of the
/// same type.
TEST_F(GridBarrierTest, StatesHaveTheSameTypes) {
  GridBarrier barrier(b, b.getPointer(0), b.i32(0), b.i32(132), b.i32(0));
  GridBarrierState none = barrier.createNoState();
  GridBarrierState state = barrier.createBegin();
  EXPECT_EQ(llvm::to_vector(ValueRange(none).getTypes()),
            llvm::to_vector(ValueRange(state).getTypes()));
}

TEST_F(GridBarrierTest, EveryWaitIsBounded) {
  Value block = b.truncate(b.getI32Type(), b.getBlock());
  Value lane = b.truncate(b.getI32Type(), b.getLane());
  GridBarrier barrier(b, b.getPointer(0), block, b.getNumBlocks(), lane);
  barrier.createWait(barrier.createBegin());
  EXPECT_GT(getAll<scf::WhileOp>().size(), 0u);
  EXPECT_EQ(getAll<scf::WhileOp>().size(),
            getAll<kernel::BoundWaitOp>().size());
}

} // namespace
