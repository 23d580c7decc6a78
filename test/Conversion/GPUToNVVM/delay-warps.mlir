// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(gpu.module(fp8moe-delay-warps{seed=7}))' | FileCheck %s
// Different seeds pause different warps.
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(gpu.module(fp8moe-delay-warps{seed=7}))' -o %t.7
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(gpu.module(fp8moe-delay-warps{seed=8}))' -o %t.8
// RUN: not diff %t.7 %t.8
// RUN: fp8moe-compile %s --target=sm_90a --delay-warps=7 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: not fp8moe-compile %s --target=gfx942 --delay-warps=7 --emit=mlir 2>&1 | FileCheck %s --check-prefix=AMD

// AMD: error: cannot delay warps on target gfx942; only kernels for NVIDIA GPUs have pauses

// Pauses come before barriers and atomics of kernels. Functions that are not kernels get none, nor
// do operations that other warps cannot observe.
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @helper
  // CHECK-NOT: nanosleep
  llvm.func @helper(%x: i32) -> i32 {
    llvm.return %x : i32
  }

  // CHECK-LABEL: llvm.func @k
  // CHECK-NEXT: llvm.inline_asm has_side_effects {{.*}}mov.u32 hash, %ctaid.x;{{.*}}@pauses nanosleep.u32 hash;
  // CHECK-NEXT: llvm.load
  // CHECK-NOT: nanosleep
  // CHECK: llvm.fadd
  // CHECK: nanosleep
  // CHECK-NEXT: nvvm.barrier
  // CHECK: nanosleep
  // CHECK-NEXT: llvm.atomicrmw
  // CHECK-NOT: nanosleep
  // CHECK: nvvm.wgmma.wait.group.sync.aligned 0
  // CHECK: nanosleep
  // CHECK-NEXT: nvvm.barrier id = %{{.*}}
  // CHECK: llvm.return
  // PTX: .entry k
  // PTX: nanosleep.u32
  // PTX: bar.sync
  llvm.func @k(%x: !llvm.ptr, %n: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    %v = llvm.load %x : !llvm.ptr -> f32
    %w = llvm.fadd %v, %v : f32
    llvm.store %w, %x : f32, !llvm.ptr
    nvvm.barrier0
    %one = llvm.mlir.constant(1 : i32) : i32
    %0 = llvm.atomicrmw add %n, %one monotonic : !llvm.ptr, i32
    // No pause is inserted while wgmma is in flight: from the fence to the last wait.
    nvvm.wgmma.fence.aligned
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 1
    llvm.br ^next
  ^next:
    nvvm.barrier id = %one
    nvvm.wgmma.wait.group.sync.aligned 0
    nvvm.barrier id = %one
    llvm.return
  }
}
