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
  auto loop = scf::WhileOp::create(
      b, init.getTypes(), init,
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::ConditionOp::create(b, isPending(carried), carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        kernel::BoundWaitOp::create(b, clock, begin);
        scf::YieldOp::create(b, body(carried));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}
