//===- LowerCopies.cpp - Copies of kernels to NVVM ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

/// The pointer in the shared memory of the cluster.
static Value castToCluster(ImplicitLocOpBuilder &b, Value pointer) {
  // NVPTX's shared::cluster.
  constexpr unsigned kClusterSpace = 7;
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
  return LLVM::AddrSpaceCastOp::create(b, type, pointer);
}

// fp8moe_kernel.tensor_load --> nvvm.cp.async.bulk.tensor.shared.cluster.global
//
// PTX 8.6 has a form for the block's own memory; every PTX for Hopper has the
// one for a cluster, whose addresses include the block's.
static void lowerTensorLoad(kernel::TensorLoadOp op, ImplicitLocOpBuilder &b) {
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, castToCluster(b, op.getDestination()), op.getMap(),
      op.getCoordinates(), op.getBarrier(), /*im2colOffsets=*/ValueRange(),
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      /*group=*/NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

// fp8moe_kernel.bulk_load --> nvvm.cp.async.bulk.shared.cluster.global
static void lowerBulkLoad(kernel::BulkLoadOp op, ImplicitLocOpBuilder &b) {
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
      b, castToCluster(b, op.getDestination()), op.getSource(), op.getBarrier(),
      op.getBytes(), /*multicastMask=*/Value(), /*l2CacheHint=*/Value());
}

/// The policy that createpolicy.fractional.L2::evict_first.b64 makes with
/// fraction 1.0.
static constexpr int64_t kEvictFirst = 0x12F0000000000000;

// fp8moe_kernel.tensor_store --> nvvm.cp.async.bulk.tensor.global.shared.cta
// fp8moe_kernel.tensor_add --> nvvm.cp.async.bulk.tensor.reduce add
template <typename OpTy>
static void lowerTensorWrite(OpTy op, ImplicitLocOpBuilder &b) {
  Value cacheHint;
  if (op.getEvictFirst())
    cacheHint = arith::ConstantIntOp::create(b, b.getI64Type(), kEvictFirst);
  if constexpr (std::is_same_v<OpTy, kernel::TensorAddOp>)
    NVVM::CpAsyncBulkTensorReduceOp::create(
        b, op.getMap(), op.getSource(), NVVM::TMAReduxKind::ADD,
        NVVM::TMAStoreMode::TILE, op.getCoordinates(), cacheHint);
  else
    NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
        b, op.getMap(), op.getSource(), op.getCoordinates(), cacheHint,
        NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}

// fp8moe_kernel.wait_stores_read 1 --> nvvm.cp.async.bulk.wait_group 1 {read}
static void lowerWaitStoresRead(kernel::WaitStoresReadOp op,
                                ImplicitLocOpBuilder &b) {
  NVVM::CpAsyncBulkWaitGroupOp::create(b, op.getPending(),
                                       /*read=*/b.getUnitAttr());
}

// fp8moe_kernel.tensor_prefetch --> nvvm.cp.async.bulk.tensor.prefetch
static void lowerTensorPrefetch(kernel::TensorPrefetchOp op,
                                ImplicitLocOpBuilder &b) {
  NVVM::CpAsyncBulkTensorPrefetchOp::create(
      b, op.getMap(), op.getCoordinates(), /*im2colOffsets=*/ValueRange(),
      NVVM::TMALoadMode::TILE, /*l2CacheHint=*/Value());
}

// fp8moe_kernel.map_prefetch --> nvvm.prefetch tensormap
static void lowerMapPrefetch(kernel::MapPrefetchOp op,
                             ImplicitLocOpBuilder &b) {
  NVVM::PrefetchOp::create(b, NVVM::PrefetchCacheLevelAttr(),
                           NVVM::CacheEvictionPriorityAttr(), op.getMap(),
                           /*predicate=*/Value(), /*tensormap=*/true);
}

//===----------------------------------------------------------------------===//
// Accesses of threads
//===----------------------------------------------------------------------===//

// fp8moe_kernel.sector_prefetch --> nvvm.prefetch level = L2
static void lowerSectorPrefetch(kernel::SectorPrefetchOp op,
                                ImplicitLocOpBuilder &b) {
  NVVM::PrefetchOp::create(b,
                           NVVM::PrefetchCacheLevelAttr::get(
                               op.getContext(), NVVM::PrefetchCacheLevel::L2),
                           NVVM::CacheEvictionPriorityAttr(), op.getPointer(),
                           /*predicate=*/Value());
}

// fp8moe_kernel.load_words acquire %p
//   -->
// %0 = llvm.inline_asm "ld.acquire.gpu.global.v4.b32 ..." : !llvm.struct<...>
// vector.from_elements %0[0], %0[1], %0[2], %0[3]
//
// LLVM has no atomic vectors. In PTX, every element of one is atomic.
static Value lowerLoadWords(kernel::LoadWordsOp op, ImplicitLocOpBuilder &b) {
  int64_t count = op.getType().getNumElements();
  SmallVector<Type> types(count, b.getI32Type());
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  std::string order = op.getAcquire() ? "acquire" : "relaxed";
  Value loaded =
      createAssembly(b, type, op.getPointer(),
                     "ld." + order +
                         ".gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
                     "=r,=r,=r,=r,l,~{memory}")
          .getRes();
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(count))
    words.push_back(LLVM::ExtractValueOp::create(b, loaded, i));
  return vector::FromElementsOp::create(b, op.getType(), words);
}

// fp8moe_kernel.add_floats
//   -->
// llvm.inline_asm "red.relaxed.gpu.global.add.v4.f32 ..."
//
// LLVM has no atomic vectors.
static void lowerAddFloats(kernel::AddFloatsOp op, ImplicitLocOpBuilder &b) {
  createAssembly(b, /*result=*/Type(), op.getOperands(),
                 "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
                 "l,f,f,f,f");
}

// fp8moe_kernel.store_matrices --> nvvm.stmatrix
static void lowerStoreMatrices(kernel::StoreMatricesOp op,
                               ImplicitLocOpBuilder &b) {
  NVVM::StMatrixOp::create(
      b, op.getPointer(), op.getWords(), NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(op.getContext(), 8, 8),
      NVVM::LdStMatrixEltType::B16);
}

void fp8moe::populateCopyPatterns(RewritePatternSet &patterns) {
  kernel::addLowerings(
      patterns, lowerTensorLoad, lowerBulkLoad,
      lowerTensorWrite<kernel::TensorStoreOp>,
      lowerTensorWrite<kernel::TensorAddOp>,
      kernel::replaceBy<kernel::CommitStoresOp, NVVM::CpAsyncBulkCommitGroupOp>,
      lowerWaitStoresRead, lowerTensorPrefetch, lowerMapPrefetch,
      lowerSectorPrefetch, lowerLoadWords, lowerAddFloats, lowerStoreMatrices);
}
