// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))"

// Each operation that only NVIDIA has is an error.

gpu.module @kernels {
  gpu.func @mbarrier_init(%shared: !llvm.ptr<3>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.mbarrier_init'}}
    fp8moe_kernel.mbarrier_init %shared, 1
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @mbarrier_init_fence() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.mbarrier_init_fence'}}
    fp8moe_kernel.mbarrier_init_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @arrive(%shared: !llvm.ptr<3>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.arrive'}}
    fp8moe_kernel.arrive %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @arrive_expect_tx(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.arrive_expect_tx'}}
    fp8moe_kernel.arrive_expect_tx %shared, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_parity(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wait_parity'}}
    fp8moe_kernel.wait_parity %shared, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @async_proxy_fence() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.async_proxy_fence'}}
    fp8moe_kernel.async_proxy_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @named_barrier(%i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.named_barrier'}}
    fp8moe_kernel.named_barrier %i, 128
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @named_barrier_arrive(%i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.named_barrier_arrive'}}
    fp8moe_kernel.named_barrier_arrive %i, 128
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @elect() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.elect'}}
    %0 = fp8moe_kernel.elect
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @set_registers() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.set_registers'}}
    fp8moe_kernel.set_registers increase 232
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @opaque(%i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.opaque'}}
    %0 = fp8moe_kernel.opaque %i : i32
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @launch_dependents() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.launch_dependents'}}
    fp8moe_kernel.launch_dependents
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_for_prerequisites() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wait_for_prerequisites'}}
    fp8moe_kernel.wait_for_prerequisites
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @begin_wait() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.begin_wait'}}
    %0 = fp8moe_kernel.begin_wait cycles
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @bound_wait(%x: i64) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.bound_wait'}}
    fp8moe_kernel.bound_wait cycles %x
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_load(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.tensor_load'}}
    fp8moe_kernel.tensor_load %shared from %map[%i] signals %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @bulk_load(%shared: !llvm.ptr<3>, %global: !llvm.ptr<1>, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.bulk_load'}}
    fp8moe_kernel.bulk_load %shared from %global, %i signals %shared
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_store(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.tensor_store'}}
    fp8moe_kernel.tensor_store %shared to %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_add(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.tensor_add'}}
    fp8moe_kernel.tensor_add %shared to %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @commit_stores() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.commit_stores'}}
    fp8moe_kernel.commit_stores
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wait_stores_read() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wait_stores_read'}}
    fp8moe_kernel.wait_stores_read 0
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @tensor_prefetch(%map: !llvm.ptr, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.tensor_prefetch'}}
    fp8moe_kernel.tensor_prefetch %map[%i]
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @map_prefetch(%map: !llvm.ptr) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.map_prefetch'}}
    fp8moe_kernel.map_prefetch %map
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @sector_prefetch(%global: !llvm.ptr<1>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.sector_prefetch'}}
    fp8moe_kernel.sector_prefetch %global
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @load_words(%global: !llvm.ptr<1>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.load_words'}}
    %0 = fp8moe_kernel.load_words %global
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @add_floats(%global: !llvm.ptr<1>, %f: f32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.add_floats'}}
    fp8moe_kernel.add_floats %global, %f, %f, %f, %f
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @store_matrices(%shared: !llvm.ptr<3>, %i: i32) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.store_matrices'}}
    fp8moe_kernel.store_matrices %shared, %i, %i, %i, %i
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_fence() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wgmma_fence'}}
    fp8moe_kernel.wgmma_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma(%i: i32, %x: i64, %sums: !llvm.struct<(f32, f32, f32, f32)>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wgmma'}}
    %0 = fp8moe_kernel.wgmma %x, %x, %sums if %i : bf16, bf16, !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_commit() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wgmma_commit'}}
    fp8moe_kernel.wgmma_commit
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_wait() {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wgmma_wait'}}
    fp8moe_kernel.wgmma_wait 0
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wgmma_results(%sums: !llvm.struct<(f32, f32, f32, f32)>) {
    // expected-error@+1 {{failed to legalize operation 'fp8moe_kernel.wgmma_results'}}
    %0 = fp8moe_kernel.wgmma_results %sums : !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}
