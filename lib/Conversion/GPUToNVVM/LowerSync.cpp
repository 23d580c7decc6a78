//===- LowerSync.cpp - Synchronization of kernels to NVVM -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Bounded waits
//===----------------------------------------------------------------------===//

/// Every wait may take two seconds. Where cycles are counted these are at least
/// as long: no multiprocessor makes more than two in a nanosecond.
static constexpr int64_t kLimitNanoseconds = 2000000000;
static constexpr int64_t kMostCyclesPerNanosecond = 2;

static Value createReadClock(ImplicitLocOpBuilder &b, kernel::WaitClock clock) {
  if (clock == kernel::WaitClock::Cycles)
    return NVVM::Clock64Op::create(b, b.getI64Type());
  return NVVM::GlobalTimerOp::create(b, b.getI64Type());
}

static void createBound(ImplicitLocOpBuilder &b, kernel::WaitClock clock,
                        Value begin) {
  int64_t limit = kLimitNanoseconds;
  if (clock == kernel::WaitClock::Cycles)
    limit *= kMostCyclesPerNanosecond;
  Value elapsed = arith::SubIOp::create(b, createReadClock(b, clock), begin);
  Value isLate = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ugt, elapsed,
      arith::ConstantIntOp::create(b, b.getI64Type(), limit));
  auto ifLate = scf::IfOp::create(b, isLate, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifLate.thenBlock());
  LLVM::Trap::create(b);
}

// fp8moe_kernel.begin_wait cycles --> nvvm.read.ptx.sreg.clock64
static Value lowerBeginWait(kernel::BeginWaitOp op, ImplicitLocOpBuilder &b) {
  return createReadClock(b, op.getClock());
}

// fp8moe_kernel.bound_wait cycles %begin
//   -->
// %elapsed = nvvm.read.ptx.sreg.clock64 - %begin
// scf.if %elapsed > limit { llvm.intr.trap }
static void lowerBoundWait(kernel::BoundWaitOp op, ImplicitLocOpBuilder &b) {
  createBound(b, op.getClock(), op.getBegin());
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

// fp8moe_kernel.mbarrier_init --> nvvm.mbarrier.init
static void lowerMBarrierInit(kernel::MBarrierInitOp op,
                              ImplicitLocOpBuilder &b) {
  NVVM::MBarrierInitOp::create(b, op.getBarrier(),
                               createI32(b, op.getArrivals()),
                               /*predicate=*/Value());
}

// fp8moe_kernel.arrive --> nvvm.mbarrier.arrive
static void lowerArrive(kernel::ArriveOp op, ImplicitLocOpBuilder &b) {
  NVVM::MBarrierArriveOp::create(b, b.getI64Type(), op.getBarrier(),
                                 /*count=*/Value());
}

// fp8moe_kernel.arrive_expect_tx --> nvvm.mbarrier.arrive.expect_tx
static void lowerArriveExpectTx(kernel::ArriveExpectTxOp op,
                                ImplicitLocOpBuilder &b) {
  NVVM::MBarrierArriveExpectTxOp::create(
      b, /*res=*/Type(), op.getBarrier(), op.getBytes(),
      NVVM::MemScopeKind::CTA, /*relaxed=*/false, /*predicate=*/Value());
}

// fp8moe_kernel.wait_parity %barrier, %parity
//   -->
// scf.if not nvvm.mbarrier.try_wait %barrier, %parity {
//   %begin = nvvm.read.ptx.sreg.globaltimer
//   scf.while not nvvm.mbarrier.try_wait %barrier, %parity {
//     (as fp8moe_kernel.bound_wait global_timer %begin)
//   }
// }
//
// The timer is slow, and most waits succeed at once.
static void lowerWaitParity(kernel::WaitParityOp op, ImplicitLocOpBuilder &b) {
  constexpr kernel::WaitClock clock = kernel::WaitClock::GlobalTimer;
  auto isPending = [&]() -> Value {
    Value done = NVVM::MBarrierTryWaitOp::create(
        b, b.getI1Type(), op.getBarrier(), op.getParity(),
        /*ticks=*/Value(), NVVM::MemScopeKind::CTA);
    return arith::XOrIOp::create(
        b, done, arith::ConstantIntOp::create(b, b.getI1Type(), 1));
  };
  auto ifPending = scf::IfOp::create(b, isPending(), /*withElseRegion=*/false);
  b.setInsertionPointToStart(ifPending.thenBlock());
  Value begin = createReadClock(b, clock);
  auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
  b.createBlock(&loop.getBefore());
  scf::ConditionOp::create(b, isPending(), ValueRange());
  b.createBlock(&loop.getAfter());
  createBound(b, clock, begin);
  scf::YieldOp::create(b);
}

//===----------------------------------------------------------------------===//
// Other barriers, warps and launches
//===----------------------------------------------------------------------===//

// fp8moe_kernel.async_proxy_fence --> nvvm.fence.proxy async.shared::cta
static void lowerAsyncProxyFence(kernel::AsyncProxyFenceOp op,
                                 ImplicitLocOpBuilder &b) {
  NVVM::FenceProxyOp::create(
      b, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(op.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}

// fp8moe_kernel.named_barrier --> nvvm.barrier id
static void lowerNamedBarrier(kernel::NamedBarrierOp op,
                              ImplicitLocOpBuilder &b) {
  NVVM::BarrierOp::create(
      b, /*res=*/Type(), op.getId(), createI32(b, op.getThreads()),
      NVVM::BarrierReductionAttr(), /*reductionPredicate=*/Value());
}

// fp8moe_kernel.named_barrier_arrive --> nvvm.barrier.arrive id
static void lowerNamedBarrierArrive(kernel::NamedBarrierArriveOp op,
                                    ImplicitLocOpBuilder &b) {
  NVVM::BarrierArriveOp::create(b, op.getId(), createI32(b, op.getThreads()));
}

// fp8moe_kernel.set_registers increase 232 --> nvvm.setmaxregister increase 232
static void lowerSetRegisters(kernel::SetRegistersOp op,
                              ImplicitLocOpBuilder &b) {
  NVVM::SetMaxRegisterOp::create(b, op.getRegisters(),
                                 op.getChange() ==
                                         kernel::RegisterChange::Increase
                                     ? NVVM::SetMaxRegisterAction::increase
                                     : NVVM::SetMaxRegisterAction::decrease);
}

// fp8moe_kernel.launch_dependents --> nvvm.griddepcontrol launch_dependents
// fp8moe_kernel.wait_for_prerequisites --> nvvm.griddepcontrol wait
template <typename OpTy, NVVM::GridDepActionKind kind>
static void lowerGridDependency(OpTy op, ImplicitLocOpBuilder &b) {
  NVVM::GriddepcontrolOp::create(b, kind);
}

void fp8moe::populateSyncPatterns(RewritePatternSet &patterns) {
  kernel::addLowerings(
      patterns, lowerBeginWait, lowerBoundWait, lowerMBarrierInit,
      kernel::replaceBy<kernel::MBarrierInitFenceOp, NVVM::FenceMbarrierInitOp>,
      lowerArrive, lowerArriveExpectTx, lowerWaitParity, lowerAsyncProxyFence,
      lowerNamedBarrier, lowerNamedBarrierArrive,
      kernel::replaceBy<kernel::ElectOp, NVVM::ElectSyncOp>, lowerSetRegisters,
      lowerGridDependency<kernel::LaunchDependentsOp,
                          NVVM::GridDepActionKind::launch_dependents>,
      lowerGridDependency<kernel::WaitForPrerequisitesOp,
                          NVVM::GridDepActionKind::wait>);
}
