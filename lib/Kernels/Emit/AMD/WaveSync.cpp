//===- WaveSync.cpp - What waves wait for ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/AMD/WaveSync.h"

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

void fp8moe::createWaitCount(KernelBuilder &b, int64_t loads,
                             int64_t sharedAccesses) {
  ROCDL::SWaitcntOp::create(
      b, b.getI32IntegerAttr(encodeWaitCount(loads, sharedAccesses)));
}

void fp8moe::createSchedulingFence(KernelBuilder &b) {
  ROCDL::SchedBarrier::create(b, b.getI32IntegerAttr(0));
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, "singlethread");
}

void fp8moe::createWaveBarrier(KernelBuilder &b) {
  createSchedulingFence(b);
  ROCDL::SBarrierOp::create(b);
  createSchedulingFence(b);
}

void fp8moe::createPriority(KernelBuilder &b, int64_t priority) {
  ROCDL::SetPrioOp::create(b, b.getI16IntegerAttr(priority));
}

Value fp8moe::createOpaqueUniform(KernelBuilder &b, Value value) {
  return LLVM::InlineAsmOp::create(
             b, value.getType(), value, /*asm_string=*/"",
             /*constraints=*/"=s,0", /*has_side_effects=*/true,
             /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(b.getContext(),
                                       LLVM::AsmDialect::AD_ATT),
             /*operand_attrs=*/ArrayAttr())
      .getResult(0);
}

Value fp8moe::createUnlikely(KernelBuilder &b, Value condition) {
  return LLVM::ExpectOp::create(b, condition, b.i1(false));
}

Value fp8moe::createReadLane(KernelBuilder &b, Value value, Value lane) {
  return ROCDL::ReadlaneOp::create(b, value.getType(), value, lane);
}
