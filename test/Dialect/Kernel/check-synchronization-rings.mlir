// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-synchronization)))"

// No error: each iteration waits for its stage and releases that of the previous iteration.
gpu.module @kernels {
  gpu.func @right(%shared: !llvm.ptr<3>, %count: i32) kernel {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %all = fp8moe_kernel.shared_part full "ring"[%c0] at %shared : !llvm.ptr<3>
    %none = fp8moe_kernel.shared_part empty "ring"[%c0] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %all, 1
    fp8moe_kernel.mbarrier_init %none, 1
    fp8moe_kernel.arrive %all
    %last = scf.for %i = %c0 to %count step %c1 iter_args(%before = %c0) -> i32 : i32 {
      %full = fp8moe_kernel.shared_part full "ring"[%i] at %shared : !llvm.ptr<3>
      fp8moe_kernel.wait_parity %full, %c0
      %stage = fp8moe_kernel.shared_part stage "ring"[%i] at %shared : !llvm.ptr<3>
      %0 = llvm.load %stage : !llvm.ptr<3> -> i32
      %empty = fp8moe_kernel.shared_part empty "ring"[%before] at %shared : !llvm.ptr<3>
      fp8moe_kernel.arrive %empty
      scf.yield %i : i32
    }
    gpu.return
  }

  // No error: one warp waits for the stage, and a barrier makes the block wait for the warp.
  gpu.func @one_waits(%shared: !llvm.ptr<3>, %stage: i32, %isWaiting: i1) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    scf.if %isWaiting {
      fp8moe_kernel.wait_parity %full, %stage
    }
    gpu.barrier
    %memory = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    %0 = llvm.load %memory : !llvm.ptr<3> -> i32
    gpu.return
  }

  // No error: the wait is in a loop whose first iteration always runs.
  gpu.func @first_round(%shared: !llvm.ptr<3>, %stage: i32, %condition: i1) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    %true = arith.constant true
    %last = scf.while (%goes_on = %true) : (i1) -> i1 {
      scf.condition(%goes_on) %goes_on : i1
    } do {
    ^bb0(%goes_on: i1):
      fp8moe_kernel.wait_parity %full, %stage
      scf.yield %condition : i1
    }
    %memory = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    %0 = llvm.load %memory : !llvm.ptr<3> -> i32
    gpu.return
  }
}

// -----

// The wait is in a loop that may have no iterations.
gpu.module @kernels {
  gpu.func @no_round(%shared: !llvm.ptr<3>, %stage: i32) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %stage step %c1 : i32 {
      fp8moe_kernel.wait_parity %full, %stage
    }
    %memory = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    // expected-error@+1 {{reads a stage of ring "ring" on a path without a wait}}
    %0 = llvm.load %memory : !llvm.ptr<3> -> i32
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @no_wait(%shared: !llvm.ptr<3>, %stage: i32, %isWaiting: i1) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    scf.if %isWaiting {
      fp8moe_kernel.wait_parity %full, %stage
    }
    %memory = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    %word = llvm.getelementptr %memory[4] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    // expected-error@+1 {{reads a stage of ring "ring" on a path without a wait; add 'fp8moe_kernel.wait_parity' for its 'full' mbarrier}}
    %0 = llvm.load %word : !llvm.ptr<3> -> i32
    gpu.return
  }
}

// -----

// A wait for ring "a" does not cover ring "b".
gpu.module @kernels {
  gpu.func @wgmma(%shared: !llvm.ptr<3>, %stage: i32, %a: i64, %b: i64,
                  %sums: !llvm.struct<(f32, f32, f32, f32)>) kernel {
    %full = fp8moe_kernel.shared_part full "a"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.arrive %full
    fp8moe_kernel.wait_parity %full, %stage
    %0 = fp8moe_kernel.shared_part stage "a"[%stage] at %a : i64
    %1 = fp8moe_kernel.shared_part stage "b"[%stage] at %b : i64
    // expected-error@+1 {{reads a stage of ring "b" on a path without a wait}}
    %2 = fp8moe_kernel.wgmma %0, %1, %sums if %stage
        : f8E4M3FN, f8E4M3FN, !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// One lane releases the stage before the other lanes have read it.
gpu.module @kernels {
  gpu.func @released(%shared: !llvm.ptr<3>, %stage: i32, %isFirst: i1) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    %empty = fp8moe_kernel.shared_part empty "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.mbarrier_init %empty, 1
    fp8moe_kernel.arrive %full
    fp8moe_kernel.wait_parity %full, %stage
    scf.if %isFirst {
      // expected-note@+1 {{the release}}
      fp8moe_kernel.arrive %empty
    }
    %memory = fp8moe_kernel.shared_part stage "ring"[%stage] at %shared : !llvm.ptr<3>
    // expected-error@+1 {{reads a stage of ring "ring" after its release; arrive at the 'empty' mbarrier later}}
    %0 = llvm.load %memory : !llvm.ptr<3> -> i32
    gpu.return
  }
}
