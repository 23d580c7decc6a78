// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-synchronization)))"

// No error: a proxy fence follows the store on each path. The later store goes to other memory.
gpu.module @kernels {
  gpu.func @right(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32, %isWhole: i1) kernel {
    %result = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    scf.for %j = %c0 to %c8 step %c1 : i32 {
      %row = llvm.getelementptr %result[%j] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      llvm.store %i, %row : i32, !llvm.ptr<3>
      fp8moe_kernel.async_proxy_fence
      llvm.store %i, %shared : i32, !llvm.ptr<3>
      gpu.barrier
      scf.if %isWhole {
        fp8moe_kernel.tensor_store %result to %map[%i]
      }
      fp8moe_kernel.commit_stores
      fp8moe_kernel.wait_stores_read 0
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @same_address(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) kernel {
    // expected-note@+1 {{the access of the thread}}
    llvm.store %i, %shared : i32, !llvm.ptr<3>
    gpu.barrier
    // expected-error@+1 {{reads shared memory by the asynchronous proxy that a thread has stored to without a fence; add 'fp8moe_kernel.async_proxy_fence' after the store, and a barrier if another thread stores}}
    fp8moe_kernel.tensor_store %shared to %map[%i]
    gpu.return
  }
}

// -----

// The fence is missing on one of two paths.
gpu.module @kernels {
  gpu.func @branch(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32, %condition: i1) kernel {
    %result = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    // expected-note@+1 {{the access of the thread}}
    fp8moe_kernel.store_matrices %result, %i, %i, %i, %i
    scf.if %condition {
      fp8moe_kernel.async_proxy_fence
    }
    // expected-error@+1 {{reads shared memory by the asynchronous proxy}}
    fp8moe_kernel.tensor_add %result to %map[%i]
    gpu.return
  }
}

// -----

// A store without a fence reaches the copy of the next iteration.
gpu.module @kernels {
  gpu.func @loop(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) kernel {
    %result = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    fp8moe_kernel.async_proxy_fence
    scf.for %j = %c0 to %i step %c1 : i32 {
      // expected-error@+1 {{reads shared memory by the asynchronous proxy}}
      fp8moe_kernel.tensor_store %result to %map[%i]
      %row = llvm.getelementptr %result[%j] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      // expected-note@+1 {{the access of the thread}}
      llvm.store %i, %row : i32, !llvm.ptr<3>
    }
    gpu.return
  }
}

// -----

// A thread stores to a stage of the ring (as when it masks an operand), and wgmma reads it without
// a fence.
gpu.module @kernels {
  gpu.func @wgmma(%shared: !llvm.ptr<3>, %stage: i32, %a: i64, %b: i64,
                  %sums: !llvm.struct<(f32, f32, f32, f32)>) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    fp8moe_kernel.wait_parity %full, %stage
    %operand = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    // expected-note@+1 {{the access of the thread}}
    llvm.store %stage, %operand : i32, !llvm.ptr<3>
    %first = fp8moe_kernel.shared_part stage "ring"[%stage] at %a : i64
    %c2 = arith.constant 2 : i64
    %second = arith.addi %first, %c2 : i64
    // expected-error@+1 {{reads shared memory by the asynchronous proxy}}
    %0 = fp8moe_kernel.wgmma %second, %b, %sums if %stage
        : f8E4M3FN, f8E4M3FN, !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// The copy of the next iteration may overwrite the memory before this iteration's load has read it.
gpu.module @kernels {
  gpu.func @overwritten(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %barrier: !llvm.ptr<3>, %i: i32) kernel {
    %box = fp8moe_kernel.shared_part memory "box" at %shared : !llvm.ptr<3>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    fp8moe_kernel.mbarrier_init %barrier, 1
    scf.for %j = %c0 to %i step %c1 : i32 {
      // expected-error@+1 {{writes shared memory by the asynchronous proxy that the thread has loaded from without a wait; wait for the 'empty' mbarrier, or add a barrier or 'fp8moe_kernel.async_proxy_fence'}}
      fp8moe_kernel.tensor_load %box from %map[%j] signals %barrier
      fp8moe_kernel.arrive %barrier
      fp8moe_kernel.wait_parity %barrier, %j
      // expected-note@+1 {{the access of the thread}}
      %0 = llvm.load %box : !llvm.ptr<3> -> i32
    }
    gpu.return
  }
}

// -----

// No error: one load is of other memory, and the other one is before a barrier.
gpu.module @kernels {
  gpu.func @ordered(%shared: !llvm.ptr<3>, %global: !llvm.ptr<1>, %barrier: !llvm.ptr<3>, %i: i32) kernel {
    %box = fp8moe_kernel.shared_part memory "box" at %shared : !llvm.ptr<3>
    %0 = llvm.load %box : !llvm.ptr<3> -> i32
    gpu.barrier
    %1 = llvm.load %barrier : !llvm.ptr<3> -> i32
    fp8moe_kernel.bulk_load %box from %global, %i signals %barrier
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @bulk(%shared: !llvm.ptr<3>, %global: !llvm.ptr<1>, %barrier: !llvm.ptr<3>, %i: i32) kernel {
    // expected-note@+1 {{the access of the thread}}
    %0 = llvm.load %shared : !llvm.ptr<3> -> i32
    // expected-error@+1 {{writes shared memory by the asynchronous proxy that the thread has loaded from}}
    fp8moe_kernel.bulk_load %shared from %global, %i signals %barrier
    gpu.return
  }
}
