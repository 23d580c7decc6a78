//===- MBarrier.cpp - Barriers in shared memory ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/MBarrier.h"
#include "Kernels/Emit/NVIDIA/BoundedWait.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

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

void fp8moe::createBarrierWait(KernelBuilder &b, Value barrier, Value parity) {
  auto isPending = [&]() -> Value {
    Value done = NVVM::MBarrierTryWaitOp::create(
        b, b.getI1Type(), barrier, parity,
        /*ticks=*/Value(), NVVM::MemScopeKind::CTA);
    return b.bitXor(done, 1);
  };
  // The timer is read only if the first attempt fails.
  b.createIf(isPending(), [&] {
    createBoundedWait(
        b, WaitClock::GlobalTimer, /*init=*/{},
        [&](ValueRange) { return isPending(); },
        [](ValueRange) { return SmallVector<Value>(); });
  });
}
