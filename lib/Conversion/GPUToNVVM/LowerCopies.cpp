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
static LogicalResult lowerTensorLoad(kernel::TensorLoadOp op,
                                     PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, castToCluster(b, op.getDestination()), op.getMap(),
      op.getCoordinates(), op.getBarrier(), /*im2colOffsets=*/ValueRange(),
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      /*group=*/NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
  rewriter.eraseOp(op);
  return success();
}

// fp8moe_kernel.bulk_load --> nvvm.cp.async.bulk.shared.cluster.global
static LogicalResult lowerBulkLoad(kernel::BulkLoadOp op,
                                   PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
      b, castToCluster(b, op.getDestination()), op.getSource(), op.getBarrier(),
      op.getBytes(), /*multicastMask=*/Value(), /*l2CacheHint=*/Value());
  rewriter.eraseOp(op);
  return success();
}

/// The policy that createpolicy.fractional.L2::evict_first.b64 makes with
/// fraction 1.0.
static constexpr int64_t kEvictFirst = 0x12F0000000000000;

// fp8moe_kernel.tensor_store --> nvvm.cp.async.bulk.tensor.global.shared.cta
// fp8moe_kernel.tensor_add --> nvvm.cp.async.bulk.tensor.reduce add
template <typename OpTy>
static LogicalResult lowerTensorWrite(OpTy op, PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
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
  rewriter.eraseOp(op);
  return success();
}

// fp8moe_kernel.wait_stores_read 1 --> nvvm.cp.async.bulk.wait_group 1 {read}
static LogicalResult lowerWaitStoresRead(kernel::WaitStoresReadOp op,
                                         PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<NVVM::CpAsyncBulkWaitGroupOp>(
      op, op.getPending(), /*read=*/rewriter.getUnitAttr());
  return success();
}

// fp8moe_kernel.tensor_prefetch --> nvvm.cp.async.bulk.tensor.prefetch
static LogicalResult lowerTensorPrefetch(kernel::TensorPrefetchOp op,
                                         PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<NVVM::CpAsyncBulkTensorPrefetchOp>(
      op, op.getMap(), op.getCoordinates(), /*im2colOffsets=*/ValueRange(),
      NVVM::TMALoadMode::TILE, /*l2CacheHint=*/Value());
  return success();
}

// fp8moe_kernel.map_prefetch --> nvvm.prefetch tensormap
static LogicalResult lowerMapPrefetch(kernel::MapPrefetchOp op,
                                      PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<NVVM::PrefetchOp>(
      op, NVVM::PrefetchCacheLevelAttr(), NVVM::CacheEvictionPriorityAttr(),
      op.getMap(), /*predicate=*/Value(), /*tensormap=*/true);
  return success();
}

//===----------------------------------------------------------------------===//
// Accesses of threads
//===----------------------------------------------------------------------===//

// fp8moe_kernel.sector_prefetch --> nvvm.prefetch level = L2
static LogicalResult lowerSectorPrefetch(kernel::SectorPrefetchOp op,
                                         PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<NVVM::PrefetchOp>(
      op,
      NVVM::PrefetchCacheLevelAttr::get(op.getContext(),
                                        NVVM::PrefetchCacheLevel::L2),
      NVVM::CacheEvictionPriorityAttr(), op.getPointer(),
      /*predicate=*/Value());
  return success();
}

// fp8moe_kernel.load_words acquire %p
//   -->
// %0 = llvm.inline_asm "ld.acquire.gpu.global.v4.b32 ..." : !llvm.struct<...>
// vector.from_elements %0[0], %0[1], %0[2], %0[3]
//
// LLVM has no atomic vectors. In PTX, every element of one is atomic.
static LogicalResult lowerLoadWords(kernel::LoadWordsOp op,
                                    PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
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
  rewriter.replaceOpWithNewOp<vector::FromElementsOp>(op, op.getType(), words);
  return success();
}

// fp8moe_kernel.add_floats
//   -->
// llvm.inline_asm "red.relaxed.gpu.global.add.v4.f32 ..."
//
// LLVM has no atomic vectors.
static LogicalResult lowerAddFloats(kernel::AddFloatsOp op,
                                    PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  createAssembly(b, /*result=*/Type(), op.getOperands(),
                 "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
                 "l,f,f,f,f");
  rewriter.eraseOp(op);
  return success();
}

// fp8moe_kernel.store_matrices --> nvvm.stmatrix
static LogicalResult lowerStoreMatrices(kernel::StoreMatricesOp op,
                                        PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<NVVM::StMatrixOp>(
      op, op.getPointer(), op.getWords(), NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(op.getContext(), 8, 8),
      NVVM::LdStMatrixEltType::B16);
  return success();
}

void fp8moe::populateCopyPatterns(RewritePatternSet &patterns) {
  patterns.add(lowerTensorLoad)
      .add(lowerBulkLoad)
      .add(lowerTensorWrite<kernel::TensorStoreOp>)
      .add(lowerTensorWrite<kernel::TensorAddOp>)
      .add(kernel::replaceBy<kernel::CommitStoresOp,
                             NVVM::CpAsyncBulkCommitGroupOp>)
      .add(lowerWaitStoresRead)
      .add(lowerTensorPrefetch)
      .add(lowerMapPrefetch)
      .add(lowerSectorPrefetch)
      .add(lowerLoadWords)
      .add(lowerAddFloats)
      .add(lowerStoreMatrices);
}
