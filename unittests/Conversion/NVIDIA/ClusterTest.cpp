//===- ClusterTest.cpp - Tests of blocks that share their memory ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Cluster.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class ClusterTest : public BuilderFixture {};

TEST_F(ClusterTest, ArrivesAtAnotherBlock) {
  Value remote = createClusterPointer(b, b.getDynamicShared(), b.i32(1));
  EXPECT_EQ(remote.getType(), getClusterPointerType(b));
  createRemoteArrive(b, remote);
  auto arrivals = getAll<NVVM::MBarrierArriveOp>();
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals.front().getScope(), NVVM::MemScopeKind::CLUSTER);
  EXPECT_FALSE(arrivals.front().getRelaxed());
}

TEST_F(ClusterTest, BarrierArrivesAndWaits) {
  createClusterBarrier(b);
  EXPECT_EQ(getAll<NVVM::ClusterArriveOp>().size(), 1u);
  EXPECT_EQ(getAll<NVVM::ClusterWaitOp>().size(), 1u);
}

} // namespace
