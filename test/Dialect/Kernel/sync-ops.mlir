// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @parts
  gpu.func @parts(%shared: !llvm.ptr<3>, %descriptor: i64, %stage: i32) {
    // CHECK: fp8moe_kernel.shared_part memory "result" at %{{.*}} : !llvm.ptr<3>
    %0 = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    // CHECK: fp8moe_kernel.shared_part mbarrier "ready" at %{{.*}} : !llvm.ptr<3>
    %1 = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    // CHECK: fp8moe_kernel.shared_part full "ring"[%{{.*}}] at %{{.*}} : !llvm.ptr<3>
    %2 = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    // CHECK: fp8moe_kernel.shared_part empty "ring"[%{{.*}}] at %{{.*}} : !llvm.ptr<3>
    %3 = fp8moe_kernel.shared_part empty "ring"[%stage] at %shared : !llvm.ptr<3>
    // CHECK: fp8moe_kernel.shared_part stage "ring"[%{{.*}}] at %{{.*}} : i64
    %4 = fp8moe_kernel.shared_part stage "ring"[%stage] at %descriptor : i64
    gpu.return
  }

  // CHECK-LABEL: gpu.func @barriers
  gpu.func @barriers(%barrier: !llvm.ptr<3>, %word: i32) {
    // CHECK: fp8moe_kernel.mbarrier_init %{{.*}}, 4
    fp8moe_kernel.mbarrier_init %barrier, 4
    // CHECK: fp8moe_kernel.mbarrier_init_fence
    fp8moe_kernel.mbarrier_init_fence
    // CHECK: fp8moe_kernel.arrive %{{.*}}
    fp8moe_kernel.arrive %barrier
    // CHECK: fp8moe_kernel.arrive_expect_tx %{{.*}}, %{{.*}}
    fp8moe_kernel.arrive_expect_tx %barrier, %word
    // CHECK: fp8moe_kernel.wait_parity %{{.*}}, %{{.*}}
    fp8moe_kernel.wait_parity %barrier, %word
    // CHECK: fp8moe_kernel.async_proxy_fence
    fp8moe_kernel.async_proxy_fence
    // CHECK: fp8moe_kernel.named_barrier %{{.*}}, 128
    fp8moe_kernel.named_barrier %word, 128
    // CHECK: fp8moe_kernel.named_barrier_arrive %{{.*}}, 256
    fp8moe_kernel.named_barrier_arrive %word, 256
    gpu.return
  }

  // CHECK-LABEL: gpu.func @warps
  gpu.func @warps(%word: i32, %words: vector<4xi32>) {
    // CHECK: fp8moe_kernel.elect
    %0 = fp8moe_kernel.elect
    // CHECK: fp8moe_kernel.set_registers increase 232
    fp8moe_kernel.set_registers increase 232
    // CHECK: fp8moe_kernel.set_registers decrease 40
    fp8moe_kernel.set_registers decrease 40
    // CHECK: fp8moe_kernel.opaque uniform %{{.*}} : i32
    %1 = fp8moe_kernel.opaque uniform %word : i32
    // CHECK: fp8moe_kernel.opaque %{{.*}} : vector<4xi32>
    %2 = fp8moe_kernel.opaque %words : vector<4xi32>
    // CHECK: fp8moe_kernel.read_lane %{{.*}}, %{{.*}}
    %3 = fp8moe_kernel.read_lane %word, %1
    gpu.return
  }

  // CHECK-LABEL: gpu.func @waves
  gpu.func @waves() {
    // CHECK: fp8moe_kernel.wait_accesses loads 8 shared 0
    fp8moe_kernel.wait_accesses loads 8 shared 0
    // CHECK: fp8moe_kernel.wait_accesses shared 15
    fp8moe_kernel.wait_accesses shared 15
    // CHECK: fp8moe_kernel.execution_barrier
    fp8moe_kernel.execution_barrier
    // CHECK: fp8moe_kernel.scheduling_fence
    fp8moe_kernel.scheduling_fence
    // CHECK: fp8moe_kernel.set_priority 1
    fp8moe_kernel.set_priority 1
    gpu.return
  }

  // CHECK-LABEL: gpu.func @time
  gpu.func @time() {
    // CHECK: fp8moe_kernel.launch_dependents
    fp8moe_kernel.launch_dependents
    // CHECK: fp8moe_kernel.wait_for_prerequisites
    fp8moe_kernel.wait_for_prerequisites
    // CHECK: %[[BEGIN:.*]] = fp8moe_kernel.begin_wait global_timer
    %begin = fp8moe_kernel.begin_wait global_timer
    // CHECK: fp8moe_kernel.bound_wait cycles %[[BEGIN]]
    fp8moe_kernel.bound_wait cycles %begin
    gpu.return
  }
}
