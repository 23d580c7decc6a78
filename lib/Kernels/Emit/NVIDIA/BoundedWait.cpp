//===- BoundedWait.cpp - Waits that end -----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/BoundedWait.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Every wait may take two seconds. Where cycles are counted these are at least
/// as long: no multiprocessor makes more than two in a nanosecond.
static constexpr int64_t kLimitNanoseconds = 2000000000;
static constexpr int64_t kMostCyclesPerNanosecond = 2;

static Value createReadClock(KernelBuilder &b, WaitClock clock) {
  if (clock == WaitClock::Cycles)
    return NVVM::Clock64Op::create(b, b.getI64Type());
  return NVVM::GlobalTimerOp::create(b, b.getI64Type());
}

SmallVector<Value>
fp8moe::createBoundedWait(KernelBuilder &b, WaitClock clock, ValueRange init,
                          function_ref<Value(ValueRange)> isPending,
                          function_ref<SmallVector<Value>(ValueRange)> body) {
  int64_t limit = kLimitNanoseconds;
  if (clock == WaitClock::Cycles)
    limit *= kMostCyclesPerNanosecond;
  Value begin = createReadClock(b, clock);
  auto loop = scf::WhileOp::create(
      b, init.getTypes(), init,
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::ConditionOp::create(b, isPending(carried), carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        Value elapsed = b.sub(createReadClock(b, clock), begin);
        Value isLate = b.compare(arith::CmpIPredicate::ugt, elapsed, limit);
        b.createIf(isLate, [&] { LLVM::Trap::create(b); });
        scf::YieldOp::create(b, body(carried));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}
