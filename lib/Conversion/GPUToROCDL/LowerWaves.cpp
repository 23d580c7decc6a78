//===- LowerWaves.cpp - Synchronization of waves to ROCDL -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::fp8moe;

// fp8moe_kernel.shared_part memory "name" at %x --> %x
static LogicalResult lowerSharedPart(kernel::SharedPartOp op,
                                     PatternRewriter &rewriter) {
  rewriter.replaceOp(op, op.getAddress());
  return success();
}

// fp8moe_kernel.opaque uniform %word : i32 --> llvm.inline_asm "", "=s,0"
//
// No operation of LLVM has this effect on its optimizer.
static LogicalResult lowerOpaque(kernel::OpaqueOp op,
                                 PatternRewriter &rewriter) {
  if (!op.getUniform() || !op.getType().isInteger(32))
    return rewriter.notifyMatchFailure(op, "only a uniform i32 is lowered");
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  rewriter.replaceOpWithNewOp<LLVM::InlineAsmOp>(
      op, op.getType(), op.getValue(), /*asm_string=*/"",
      /*constraints=*/"=s,0", /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
  return success();
}

// fp8moe_kernel.read_lane --> rocdl.readlane
static LogicalResult lowerReadLane(kernel::ReadLaneOp op,
                                   PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<ROCDL::ReadlaneOp>(op, op.getType(),
                                                 op.getValue(), op.getLane());
  return success();
}

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
  patterns.add(lowerSharedPart)
      .add(lowerOpaque)
      .add(lowerReadLane)
      .add(lowerWaitAccesses)
      .add(lowerSchedulingFence)
      .add(lowerExecutionBarrier)
      .add(lowerSetPriority);
}
