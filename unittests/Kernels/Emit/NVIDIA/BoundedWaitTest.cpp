//===- BoundedWaitTest.cpp - Tests of waits that end ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/BoundedWait.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class BoundedWaitTest : public BuilderFixture {};

TEST_F(BoundedWaitTest, CarriesValuesAndIsBounded) {
  Value result = createBoundedWait(
                     b, b.i32(7),
                     [&](ValueRange carried) { return b.less(carried[0], 9); },
                     [&](ValueRange carried) {
                       return SmallVector<Value>{b.add(carried[0], 1)};
                     })
                     .front();
  auto loop = result.getDefiningOp<scf::WhileOp>();
  ASSERT_TRUE(loop);
  EXPECT_EQ(valueOf(loop.getInits().front()), 7);
  auto bounds = getAll<kernel::BoundWaitOp>();
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds.front()->getParentRegion(), &loop.getAfter());
  EXPECT_TRUE(bounds.front().getBegin().getDefiningOp<kernel::BeginWaitOp>());
}

} // namespace
