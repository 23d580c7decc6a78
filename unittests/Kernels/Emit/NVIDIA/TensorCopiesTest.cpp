//===- TensorCopiesTest.cpp - Tests of asynchronous copies ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/TensorCopies.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class TensorCopiesTest : public BuilderFixture {
protected:
  /// A tensor map is a pointer of the generic address space.
  Value map = LLVM::PoisonOp::create(b, LLVM::LLVMPointerType::get(&context));
  Value shared = b.getDynamicShared();
};

TEST_F(TensorCopiesTest, LoadsReportToTheBarrier) {
  createTensorLoad(b, map, {b.i32(0), b.i32(8)}, shared, shared);
  createBulkLoad(b, b.getPointer(0), shared, b.i32(64), shared);
  auto tensors = getAll<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>();
  auto bulks = getAll<NVVM::CpAsyncBulkGlobalToSharedClusterOp>();
  ASSERT_EQ(tensors.size(), 1u);
  ASSERT_EQ(bulks.size(), 1u);
  EXPECT_EQ(tensors.front().getMbar(), shared);
  EXPECT_EQ(bulks.front().getMbar(), shared);
  // Every PTX of Hopper has the form whose destination is in the cluster.
  // NVPTX's shared::cluster.
  auto cluster = LLVM::LLVMPointerType::get(b.getContext(), 7);
  EXPECT_EQ(tensors.front().getDstMem().getType(), cluster);
  EXPECT_EQ(bulks.front().getDstMem().getType(), cluster);
}

TEST_F(TensorCopiesTest, StoresAreGrouped) {
  createTensorStore(b, map, {b.i32(0), b.i32(8)}, shared);
  createStoreCommit(b);
  createStoreWaitRead(b, 1);
  EXPECT_EQ(getAll<NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp>().size(), 1u);
  EXPECT_EQ(getAll<NVVM::CpAsyncBulkCommitGroupOp>().size(), 1u);
  auto waits = getAll<NVVM::CpAsyncBulkWaitGroupOp>();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.front().getGroup(), 1u);
  EXPECT_TRUE(waits.front().getRead());
}

} // namespace
