//===- BoundedWait.cpp - Waits that end -----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/BoundedWait.h"

using namespace mlir;
using namespace mlir::fp8moe;

SmallVector<Value>
fp8moe::createBoundedWait(KernelBuilder &b, ValueRange init,
                          function_ref<Value(ValueRange)> isPending,
                          function_ref<SmallVector<Value>(ValueRange)> body) {
  constexpr kernel::WaitClock clock = kernel::WaitClock::Cycles;
  Value begin = kernel::BeginWaitOp::create(b, clock);
  return b.createWhile(init, isPending, [&](ValueRange carried) {
    kernel::BoundWaitOp::create(b, clock, begin);
    return body(carried);
  });
}

void fp8moe::createBoundedWait(KernelBuilder &b,
                               function_ref<Value()> isPending) {
  createBoundedWait(
      b, {}, [&](ValueRange) { return isPending(); },
      [](ValueRange) { return SmallVector<Value>(); });
}
