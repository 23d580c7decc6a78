//===- Hopper.cpp - Asynchronous copies, barriers and rings ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Hopper.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// How long a barrier is waited for. Every kernel ends within milliseconds, so
/// a longer wait is a deadlock.
static constexpr int64_t kWaitLimitNanoseconds = 2000000000;

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void fp8moe::createBarrierInit(KernelBuilder &b, Value barrier,
                               KernelBuilder::Operand arrivals) {
  NVVM::MBarrierInitOp::create(b, barrier, b.add(b.i32(0), arrivals),
                               /*predicate=*/Value());
}

void fp8moe::createBarrierInitFence(KernelBuilder &b) {
  NVVM::FenceMbarrierInitOp::create(b);
}

void fp8moe::createArrive(KernelBuilder &b, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier,
                                 /*count=*/Value());
}

void fp8moe::createArriveExpecting(KernelBuilder &b, Value barrier,
                                   KernelBuilder::Operand bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(
      b, /*res=*/Type(), barrier, b.add(b.i32(0), bytes),
      NVVM::MemScopeKind::CTA, /*relaxed=*/false, /*predicate=*/Value());
}

void fp8moe::createBarrierWait(KernelBuilder &b, Value barrier, Value parity,
                               BarrierScope scope) {
  auto kind = scope == BarrierScope::Cluster ? NVVM::MemScopeKind::CLUSTER
                                             : NVVM::MemScopeKind::CTA;
  auto isPending = [&]() -> Value {
    Value done =
        NVVM::MBarrierTryWaitOp::create(b, b.getI1Type(), barrier, parity,
                                        /*ticks=*/Value(), kind);
    return b.bitXor(done, 1);
  };
  auto readTime = [&]() -> Value {
    return NVVM::GlobalTimerOp::create(b, b.getI64Type());
  };
  // The clock is only read when the first attempt fails.
  b.createIf(isPending(), [&] {
    Value begin = readTime();
    scf::WhileOp::create(
        b, TypeRange(), ValueRange(),
        [&](OpBuilder &, Location, ValueRange) {
          scf::ConditionOp::create(b, isPending(), ValueRange());
        },
        [&](OpBuilder &, Location, ValueRange) {
          Value isLate =
              b.compare(arith::CmpIPredicate::ugt, b.sub(readTime(), begin),
                        kWaitLimitNanoseconds);
          b.createIf(isLate, [&] { LLVM::Trap::create(b); });
          scf::YieldOp::create(b);
        });
  });
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// Shared memory seen from the cluster has an address space of its own.
static Type getClusterPointerType(KernelBuilder &b) {
  constexpr unsigned kClusterSpace = 7;
  return LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
}

Value fp8moe::createClusterPointer(KernelBuilder &b, Value pointer,
                                   Value rank) {
  return NVVM::MapaOp::create(b, getClusterPointerType(b), pointer, rank);
}

void fp8moe::createRemoteArrive(KernelBuilder &b, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, /*res=*/Type(), barrier, /*count=*/Value(),
                                 NVVM::MemScopeKind::CLUSTER,
                                 /*relaxed=*/false);
}

void fp8moe::createClusterBarrier(KernelBuilder &b) {
  NVVM::ClusterArriveOp::create(b, /*aligned=*/UnitAttr());
  NVVM::ClusterWaitOp::create(b, /*aligned=*/UnitAttr());
}

//===----------------------------------------------------------------------===//
// Rings of stages
//===----------------------------------------------------------------------===//

void StageRing::createInit(int64_t fullArrivals, int64_t releases) {
  for (int64_t stage : llvm::seq(stages)) {
    createBarrierInit(b, getFullBarrier(b.i32(stage)), fullArrivals);
    createBarrierInit(b, getEmptyBarrier(b.i32(stage)), releases);
  }
}

RingPosition StageRing::getPosition(Value count) {
  return {b.remU(count, stages), b.bitAnd(b.divU(count, stages), 1)};
}

RingPosition StageRing::getNext(RingPosition position) {
  Value stage = b.add(position.stage, 1);
  Value wraps = b.equal(stage, stages);
  return {b.select(wraps, b.i32(0), stage),
          b.select(wraps, b.bitXor(position.parity, 1), position.parity)};
}

RingPosition StageRing::getBefore(RingPosition position, Value count) {
  Value stage = b.sub(position.stage, count);
  Value wraps = b.less(stage, 0);
  return {b.select(wraps, b.add(stage, stages), stage),
          b.select(wraps, b.bitXor(position.parity, 1), position.parity)};
}

Value StageRing::getFullBarrier(Value stage) {
  return b.offsetBytes(barriers, b.mul(stage, nvidia::kMBarrierBytes));
}

Value StageRing::getEmptyBarrier(Value stage) {
  return b.offsetBytes(barriers,
                       b.mul(b.add(stage, stages), nvidia::kMBarrierBytes));
}

void StageRing::createWaitEmpty(RingPosition position) {
  // In round 0 nobody has released a stage: the phase before the first one
  // counts as complete.
  createBarrierWait(b, getEmptyBarrier(position.stage),
                    b.bitXor(position.parity, 1));
}

void StageRing::createWaitFull(RingPosition position) {
  createBarrierWait(b, getFullBarrier(position.stage), position.parity);
}

void StageRing::createRelease(Value stage) {
  createArrive(b, getEmptyBarrier(stage));
}

//===----------------------------------------------------------------------===//
// Copies by tensor maps
//===----------------------------------------------------------------------===//

static Value castToCluster(KernelBuilder &b, Value pointer) {
  return LLVM::AddrSpaceCastOp::create(b, getClusterPointerType(b), pointer);
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

void fp8moe::createTensorStore(KernelBuilder &b, Value map,
                               ValueRange coordinates, Value source) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
      b, map, source, coordinates, /*l2CacheHint=*/Value(),
      NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
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

//===----------------------------------------------------------------------===//
// Programmatic launches
//===----------------------------------------------------------------------===//

void fp8moe::createLetNextKernelBegin(KernelBuilder &b) {
  NVVM::GriddepcontrolOp::create(b, NVVM::GridDepActionKind::launch_dependents);
}

void fp8moe::createWaitForEarlierKernels(KernelBuilder &b) {
  NVVM::GriddepcontrolOp::create(b, NVVM::GridDepActionKind::wait);
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

void fp8moe::createGlobalAdd(KernelBuilder &b, Value pointer,
                             ArrayRef<Value> values) {
  SmallVector<Value> operands{pointer};
  llvm::append_range(operands, values);
  LLVM::InlineAsmOp::create(
      b, /*res=*/Type(), operands,
      "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};", "l,f,f,f,f",
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

Value fp8moe::createUniformWarp(KernelBuilder &b) {
  return b.shuffleIndex(b.truncate(b.getI32Type(), b.getSubgroup()), b.i32(0));
}

Value fp8moe::createElect(KernelBuilder &b) {
  return NVVM::ElectSyncOp::create(b, b.getI1Type(), /*membermask=*/Value());
}

void fp8moe::createNamedBarrier(KernelBuilder &b, Value id, int64_t threads) {
  NVVM::BarrierOp::create(b, /*res=*/Type(), id, b.i32(threads),
                          NVVM::BarrierReductionAttr(),
                          /*reductionPredicate=*/Value());
}

void fp8moe::createNamedArrive(KernelBuilder &b, Value id, int64_t threads) {
  NVVM::BarrierArriveOp::create(b, id, b.i32(threads));
}

void fp8moe::createSetRegisters(KernelBuilder &b, int64_t registers,
                                bool increase) {
  NVVM::SetMaxRegisterOp::create(b, static_cast<uint32_t>(registers),
                                 increase
                                     ? NVVM::SetMaxRegisterAction::increase
                                     : NVVM::SetMaxRegisterAction::decrease);
}

/// `first` is the number of the first role's first warp.
static void createRolesFrom(KernelBuilder &b, Value warp, int64_t first,
                            ArrayRef<WarpRole> roles) {
  const WarpRole &role = roles.front();
  auto build = [&] { role.build(b.sub(warp, first)); };
  if (roles.size() == 1)
    return build();
  int64_t next = first + role.warps;
  b.createIf(b.less(warp, next), build,
             [&] { createRolesFrom(b, warp, next, roles.drop_front()); });
}

void fp8moe::createWarpRoles(KernelBuilder &b, Value warp,
                             ArrayRef<WarpRole> roles) {
  createRolesFrom(b, warp, /*first=*/0, roles);
}
