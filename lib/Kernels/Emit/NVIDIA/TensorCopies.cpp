//===- TensorCopies.cpp - Asynchronous copies by TMA ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/TensorCopies.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The pointer in the shared memory of the cluster.
static Value castToCluster(KernelBuilder &b, Value pointer) {
  // NVPTX's shared::cluster.
  constexpr unsigned kClusterSpace = 7;
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
  return LLVM::AddrSpaceCastOp::create(b, type, pointer);
}

void fp8moe::createTensorLoad(KernelBuilder &b, Value map,
                              ValueRange coordinates, Value destination,
                              Value barrier) {
  // PTX 8.6 has a form for the block's own memory; every PTX for Hopper has the
  // one for a cluster, whose addresses include the block's.
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, castToCluster(b, destination), map, coordinates, barrier,
      /*im2colOffsets=*/ValueRange(),
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      /*group=*/NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

void fp8moe::createBulkLoad(KernelBuilder &b, Value source, Value destination,
                            Value bytes, Value barrier) {
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
      b, castToCluster(b, destination), source, barrier, bytes,
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value());
}

/// The policy that createpolicy.fractional.L2::evict_first.b64 makes with
/// fraction 1.0.
static constexpr int64_t kEvictFirst = 0x12F0000000000000;

/// Nothing for the normal priority.
static Value createCacheHint(KernelBuilder &b, CachePriority priority) {
  return priority == CachePriority::EvictFirst ? b.i64(kEvictFirst) : Value();
}

void fp8moe::createTensorStore(KernelBuilder &b, Value map,
                               ValueRange coordinates, Value source,
                               CachePriority priority) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
      b, map, source, coordinates, createCacheHint(b, priority),
      NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}

void fp8moe::createTensorAdd(KernelBuilder &b, Value map,
                             ValueRange coordinates, Value source,
                             CachePriority priority) {
  NVVM::CpAsyncBulkTensorReduceOp::create(
      b, map, source, NVVM::TMAReduxKind::ADD, NVVM::TMAStoreMode::TILE,
      coordinates, createCacheHint(b, priority));
}

void fp8moe::createStoreCommit(KernelBuilder &b) {
  NVVM::CpAsyncBulkCommitGroupOp::create(b);
}

void fp8moe::createStoreWaitRead(KernelBuilder &b, int64_t pending) {
  NVVM::CpAsyncBulkWaitGroupOp::create(b, static_cast<uint32_t>(pending),
                                       /*read=*/b.getUnitAttr());
}

void fp8moe::createAsyncProxyFence(KernelBuilder &b) {
  NVVM::FenceProxyOp::create(
      b, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}

void fp8moe::createTensorPrefetch(KernelBuilder &b, Value map,
                                  ValueRange coordinates) {
  NVVM::CpAsyncBulkTensorPrefetchOp::create(
      b, map, coordinates, /*im2colOffsets=*/ValueRange(),
      NVVM::TMALoadMode::TILE, /*l2CacheHint=*/Value());
}

void fp8moe::createMapPrefetch(KernelBuilder &b, Value map) {
  NVVM::PrefetchOp::create(b, NVVM::PrefetchCacheLevelAttr(),
                           NVVM::CacheEvictionPriorityAttr(), map,
                           /*predicate=*/Value(), /*tensormap=*/true);
}
