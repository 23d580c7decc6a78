// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-nvvm)))" | FileCheck %s

!sums = !llvm.struct<(f32, f32, f32, f32)>

gpu.module @kernels {
  // The inline assembly ties its results to the accumulators. The other operands are both matrix
  // descriptors and the flag that says whether to accumulate.
  // CHECK-LABEL: gpu.func @fp8
  // CHECK-SAME: (%[[A:.*]]: i64, %[[B:.*]]: i64, %[[SUMS:.*]]: !llvm.struct<(f32, f32, f32, f32)>, %[[FLAG:.*]]: i32)
  gpu.func @fp8(%a: i64, %b: i64, %sums: !sums, %flag: i32) -> !sums {
    // CHECK: nvvm.wgmma.fence.aligned
    fp8moe_kernel.wgmma_fence
    // CHECK-COUNT-4: llvm.extractvalue %[[SUMS]]
    // CHECK: %[[NEXT:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "{\0A.reg .pred p;\0Asetp.ne.b32 p, $10, 0;\0Awgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {$0, $1, $2, $3}, $8, $9, p, 1, 1;\0A}\0A", "=f,=f,=f,=f,0,1,2,3,l,l,r"
    // CHECK-SAME: %[[A]], %[[B]], %[[FLAG]]
    %0 = fp8moe_kernel.wgmma %a, %b, %sums if %flag : f8E4M3FN, f8E5M2, !sums
    // CHECK: nvvm.wgmma.commit.group.sync.aligned
    fp8moe_kernel.wgmma_commit
    // CHECK: nvvm.wgmma.wait.group.sync.aligned 1
    fp8moe_kernel.wgmma_wait 1
    // CHECK-COUNT-4: llvm.extractvalue %[[NEXT]]
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "", "=f,=f,=f,=f,0,1,2,3"
    %1 = fp8moe_kernel.wgmma_results %0 : !sums
    gpu.return %1 : !sums
  }

  // Only the bf16 instruction has operands for MN-major matrices.
  // CHECK-LABEL: gpu.func @bf16
  gpu.func @bf16(%a: i64, %b: i64, %sums: !sums, %flag: i32) -> !sums {
    // CHECK: m64n8k16.f32.bf16.bf16 {{.*}}, p, 1, 1, 0, 0;
    %0 = fp8moe_kernel.wgmma %a, %b, %sums if %flag : bf16, bf16, !sums
    // CHECK: m64n8k16.f32.bf16.bf16 {{.*}}, p, 1, 1, 1, 0;
    %1 = fp8moe_kernel.wgmma %a, %b, %0 if %flag mn_major_a : bf16, bf16, !sums
    // CHECK: m64n8k16.f32.bf16.bf16 {{.*}}, p, 1, 1, 0, 1;
    %2 = fp8moe_kernel.wgmma %a, %b, %1 if %flag mn_major_b : bf16, bf16, !sums
    gpu.return %2 : !sums
  }
}
