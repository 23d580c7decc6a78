// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))"

// Each NVIDIA-only operation is an error on AMD targets.

gpu.module @kernels {
  gpu.func @mbarrier_init(%shared: !llvm.ptr<3>) {
    // expected-error@+1 {{'fp8moe_kernel.mbarrier_init' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.mbarrier_init %shared, 1
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @mbarrier_init_fence() {
    // expected-error@+1 {{'fp8moe_kernel.mbarrier_init_fence' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.mbarrier_init_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @arrive(%shared: !llvm.ptr<3>) {
    // expected-error@+1 {{'fp8moe_kernel.arrive' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.arrive %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @arrive_expect_tx(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.arrive_expect_tx' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.arrive_expect_tx %shared, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_parity(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.wait_parity' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wait_parity %shared, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @async_proxy_fence() {
    // expected-error@+1 {{'fp8moe_kernel.async_proxy_fence' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.async_proxy_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @named_barrier(%i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.named_barrier' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.named_barrier %i, 128
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @named_barrier_arrive(%i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.named_barrier_arrive' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.named_barrier_arrive %i, 128
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @elect() {
    // expected-error@+1 {{'fp8moe_kernel.elect' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.elect
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @set_registers() {
    // expected-error@+1 {{'fp8moe_kernel.set_registers' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.set_registers increase 232
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @launch_dependents() {
    // expected-error@+1 {{'fp8moe_kernel.launch_dependents' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.launch_dependents
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_for_prerequisites() {
    // expected-error@+1 {{'fp8moe_kernel.wait_for_prerequisites' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wait_for_prerequisites
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @begin_wait() {
    // expected-error@+1 {{'fp8moe_kernel.begin_wait' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.begin_wait cycles
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @bound_wait(%x: i64) {
    // expected-error@+1 {{'fp8moe_kernel.bound_wait' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.bound_wait cycles %x
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_load(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.tensor_load' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.tensor_load %shared from %map[%i] signals %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @bulk_load(%shared: !llvm.ptr<3>, %global: !llvm.ptr<1>, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.bulk_load' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.bulk_load %shared from %global, %i signals %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_store(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.tensor_store' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.tensor_store %shared to %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_add(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.tensor_add' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.tensor_add %shared to %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @commit_stores() {
    // expected-error@+1 {{'fp8moe_kernel.commit_stores' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.commit_stores
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_stores_read() {
    // expected-error@+1 {{'fp8moe_kernel.wait_stores_read' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wait_stores_read 0
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_prefetch(%map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.tensor_prefetch' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.tensor_prefetch %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @map_prefetch(%map: !llvm.ptr) {
    // expected-error@+1 {{'fp8moe_kernel.map_prefetch' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.map_prefetch %map
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @sector_prefetch(%global: !llvm.ptr<1>) {
    // expected-error@+1 {{'fp8moe_kernel.sector_prefetch' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.sector_prefetch %global
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @load_words(%global: !llvm.ptr<1>) {
    // expected-error@+1 {{'fp8moe_kernel.load_words' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.load_words %global
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @add_floats(%global: !llvm.ptr<1>, %f: f32) {
    // expected-error@+1 {{'fp8moe_kernel.add_floats' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.add_floats %global, %f, %f, %f, %f
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @store_matrices(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{'fp8moe_kernel.store_matrices' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.store_matrices %shared, %i, %i, %i, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_fence() {
    // expected-error@+1 {{'fp8moe_kernel.wgmma_fence' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wgmma_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma(%i: i32, %x: i64, %sums: !llvm.struct<(f32, f32, f32, f32)>) {
    // expected-error@+1 {{'fp8moe_kernel.wgmma' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.wgmma %x, %x, %sums if %i : bf16, bf16, !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_commit() {
    // expected-error@+1 {{'fp8moe_kernel.wgmma_commit' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wgmma_commit
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_wait() {
    // expected-error@+1 {{'fp8moe_kernel.wgmma_wait' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wgmma_wait 0
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_results(%sums: !llvm.struct<(f32, f32, f32, f32)>) {
    // expected-error@+1 {{'fp8moe_kernel.wgmma_results' op is an instruction that AMD's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.wgmma_results %sums : !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}
