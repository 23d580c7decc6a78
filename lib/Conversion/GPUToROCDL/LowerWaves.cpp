//===- LowerWaves.cpp - Synchronization of waves to ROCDL -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// s_waitcnt of gfx9: vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in
/// 11:8. Nothing is exported.
static int64_t encodeWaitCount(int64_t loads, int64_t sharedAccesses) {
  constexpr int64_t anyExports = 7;
  return (loads & 15) | (loads >> 4) << 14 | anyExports << 4 |
         sharedAccesses << 8;
}

// fp8moe_kernel.wait_accesses loads 8 shared 0 --> rocdl.s.waitcnt 120
static void lowerWaitAccesses(kernel::WaitAccessesOp op,
                              ImplicitLocOpBuilder &b) {
  constexpr uint32_t anyLoads = 63;
  int64_t count =
      encodeWaitCount(op.getLoads().value_or(anyLoads), op.getShared());
  ROCDL::SWaitcntOp::create(b, b.getI32IntegerAttr(count));
}

static void createSchedulingFence(ImplicitLocOpBuilder &b) {
  ROCDL::SchedBarrier::create(b, b.getI32IntegerAttr(0));
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, "singlethread");
}

// fp8moe_kernel.scheduling_fence
//   -->
// rocdl.sched.barrier 0
// llvm.fence syncscope("singlethread") acq_rel
static void lowerSchedulingFence(kernel::SchedulingFenceOp op,
                                 ImplicitLocOpBuilder &b) {
  createSchedulingFence(b);
}

// fp8moe_kernel.execution_barrier --> rocdl.s.barrier between scheduling fences
static void lowerExecutionBarrier(kernel::ExecutionBarrierOp op,
                                  ImplicitLocOpBuilder &b) {
  createSchedulingFence(b);
  ROCDL::SBarrierOp::create(b);
  createSchedulingFence(b);
}

// fp8moe_kernel.set_priority 1 --> rocdl.s.setprio 1
static void lowerSetPriority(kernel::SetPriorityOp op,
                             ImplicitLocOpBuilder &b) {
  ROCDL::SetPrioOp::create(b, b.getI16IntegerAttr(op.getPriority()));
}

void fp8moe::populateWavePatterns(RewritePatternSet &patterns) {
  kernel::addLowerings(patterns,
                       kernel::replaceBy<kernel::ReadLaneOp, ROCDL::ReadlaneOp>,
                       lowerWaitAccesses, lowerSchedulingFence,
                       lowerExecutionBarrier, lowerSetPriority);
}
