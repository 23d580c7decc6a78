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
static LogicalResult lowerWaitAccesses(kernel::WaitAccessesOp op,
                                       PatternRewriter &rewriter) {
  constexpr uint32_t anyLoads = 63;
  int64_t count =
      encodeWaitCount(op.getLoads().value_or(anyLoads), op.getShared());
  rewriter.replaceOpWithNewOp<ROCDL::SWaitcntOp>(
      op, rewriter.getI32IntegerAttr(count));
  return success();
}

static void createSchedulingFence(ImplicitLocOpBuilder &b) {
  ROCDL::SchedBarrier::create(b, b.getI32IntegerAttr(0));
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, "singlethread");
}

// fp8moe_kernel.scheduling_fence
//   -->
// rocdl.sched.barrier 0
// llvm.fence syncscope("singlethread") acq_rel
static LogicalResult lowerSchedulingFence(kernel::SchedulingFenceOp op,
                                          PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  createSchedulingFence(b);
  rewriter.eraseOp(op);
  return success();
}

// fp8moe_kernel.execution_barrier --> rocdl.s.barrier between scheduling fences
static LogicalResult lowerExecutionBarrier(kernel::ExecutionBarrierOp op,
                                           PatternRewriter &rewriter) {
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  createSchedulingFence(b);
  ROCDL::SBarrierOp::create(b);
  createSchedulingFence(b);
  rewriter.eraseOp(op);
  return success();
}

// fp8moe_kernel.set_priority 1 --> rocdl.s.setprio 1
static LogicalResult lowerSetPriority(kernel::SetPriorityOp op,
                                      PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<ROCDL::SetPrioOp>(
      op, rewriter.getI16IntegerAttr(op.getPriority()));
  return success();
}

void fp8moe::populateWavePatterns(RewritePatternSet &patterns) {
  patterns.add(kernel::replaceBy<kernel::ReadLaneOp, ROCDL::ReadlaneOp>)
      .add(lowerWaitAccesses)
      .add(lowerSchedulingFence)
      .add(lowerExecutionBarrier)
      .add(lowerSetPriority);
}
