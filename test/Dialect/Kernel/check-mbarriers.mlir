// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers)))"

// No error: the second warp arrives, and the first one waits.
gpu.module @kernels {
  gpu.func @right(%shared: !llvm.ptr<3>, %parity: i32) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %c0 = arith.constant 0 : index
    %isFirst = arith.cmpi eq, %thread, %c0 : index
    %isWaiting = arith.cmpi ult, %thread, %c32 : index
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    scf.if %isFirst {
      fp8moe_kernel.mbarrier_init %ready, 32
    }
    gpu.barrier
    scf.if %isWaiting {
      fp8moe_kernel.wait_parity %ready, %parity
    } else {
      fp8moe_kernel.arrive %ready
    }
    gpu.return
  }

  // No error: callers of a function that is not a kernel may arrive.
  gpu.func @helper(%barrier: !llvm.ptr<3>, %parity: i32) {
    fp8moe_kernel.wait_parity %barrier, %parity
    gpu.return
  }
}

// -----

// No error: each arrival is by one lane, chosen by a branch or by the previous iteration.
gpu.module @kernels {
  gpu.func @chosen(%shared: !llvm.ptr<3>, %parity: i32, %flag: i1) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %isFirst = arith.cmpi eq, %thread, %c0 : index
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    scf.if %isFirst {
      fp8moe_kernel.mbarrier_init %ready, 1
    }
    gpu.barrier
    %branch = scf.if %flag -> i1 {
      scf.yield %isFirst : i1
    } else {
      %isSecond = arith.cmpi eq, %thread, %c1 : index
      scf.yield %isSecond : i1
    }
    scf.if %branch {
      fp8moe_kernel.arrive %ready
    }
    scf.for %i = %c0 to %c1 step %c1 iter_args(%is = %flag) -> i1 {
      scf.if %is {
        fp8moe_kernel.arrive %ready
      }
      %next = arith.cmpi eq, %thread, %i : index
      scf.yield %next : i1
    }
    fp8moe_kernel.wait_parity %ready, %parity
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @initialized(%shared: !llvm.ptr<3>, %parity: i32) kernel {
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    fp8moe_kernel.arrive %ready
    // expected-error@+1 {{waits for an mbarrier of 'ready', but the kernel initializes none; add 'fp8moe_kernel.mbarrier_init'}}
    fp8moe_kernel.wait_parity %ready, %parity
    gpu.return
  }
}

// -----

// Arrivals at 'empty' do not count for 'full', nor does the copy that signals 'full'.
gpu.module @kernels {
  gpu.func @arrived(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %stage: i32, %parity: i32) kernel {
    %full = fp8moe_kernel.shared_part full "ring"[%stage] at %shared : !llvm.ptr<3>
    %empty = fp8moe_kernel.shared_part empty "ring"[%stage] at %shared : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.mbarrier_init %empty, 1
    fp8moe_kernel.tensor_load %shared from %map[%stage] signals %full
    // expected-error@+1 {{waits for an mbarrier 'full' of 'ring', but no thread of the kernel arrives at one; add 'fp8moe_kernel.arrive'}}
    fp8moe_kernel.wait_parity %full, %parity
    fp8moe_kernel.arrive %empty
    fp8moe_kernel.wait_parity %empty, %parity
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @unnamed(%barrier: !llvm.ptr<3>, %parity: i32) kernel {
    fp8moe_kernel.mbarrier_init %barrier, 1
    // expected-error@+1 {{waits for an mbarrier, but no thread of the kernel arrives at one}}
    fp8moe_kernel.wait_parity %barrier, %parity
    gpu.return
  }
}

// -----

// Four threads can arrive: lane 0 of each of the four warps with a role. The warp number is
// uniform, as it comes from a shuffle.
gpu.module @kernels {
  gpu.func @count(%shared: !llvm.ptr<3>, %parity: i32) kernel
      attributes {known_block_size = array<i32: 160, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c32 = arith.constant 32 : i32
    %index = gpu.thread_id x
    %thread = arith.index_cast %index : index to i32
    %lane = arith.remui %thread, %c32 : i32
    %number = arith.divui %thread, %c32 : i32
    %warp, %valid = gpu.shuffle idx %number, %c0, %c32 : i32
    %hasRole = arith.cmpi ult, %warp, %c4 : i32
    %isFirst = arith.cmpi eq, %lane, %c0 : i32
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    // expected-error@+1 {{asks for 5 arrivals at an mbarrier of 'ready', but only 4 threads may arrive; ask for fewer, or let more arrive}}
    fp8moe_kernel.mbarrier_init %ready, 5
    scf.if %hasRole {
      scf.if %isFirst {
        // expected-note@+1 {{threads arrive here}}
        fp8moe_kernel.arrive %ready
      }
    } else {
      fp8moe_kernel.wait_parity %ready, %parity
    }
    gpu.return
  }
}

// -----

// Two warps elect one thread each, but 'empty' expects 64 arrivals.
gpu.module @kernels {
  gpu.func @ring(%shared: !llvm.ptr<3>, %stage: i32, %parity: i32) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %empty = fp8moe_kernel.shared_part empty "ring"[%stage] at %shared : !llvm.ptr<3>
    // expected-error@+1 {{asks for 64 arrivals at an mbarrier 'empty' of 'ring', but only 2 threads may arrive}}
    fp8moe_kernel.mbarrier_init %empty, 64
    fp8moe_kernel.wait_parity %empty, %parity
    %isElected = fp8moe_kernel.elect
    scf.if %isElected {
      // expected-note@+1 {{threads arrive here}}
      fp8moe_kernel.arrive %empty
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @different(%shared: !llvm.ptr<3>, %parity: i32) kernel {
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    // expected-note@+1 {{the other one}}
    fp8moe_kernel.mbarrier_init %ready, 1
    // expected-error@+1 {{asks for 2 arrivals at an mbarrier of 'ready', and another one for 1; give them different names}}
    fp8moe_kernel.mbarrier_init %ready, 2
    fp8moe_kernel.arrive %ready
    fp8moe_kernel.wait_parity %ready, %parity
    gpu.return
  }
}

// -----

// 32 lanes of a warp arrive at an mbarrier that expects one arrival.
gpu.module @kernels {
  gpu.func @more(%shared: !llvm.ptr<3>, %parity: i32) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %isArriving = arith.cmpi ult, %thread, %c32 : index
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    // expected-error@+1 {{asks for 1 arrivals at an mbarrier of 'ready', but more lanes of a warp arrive; ask for as many, or let one arrive}}
    fp8moe_kernel.mbarrier_init %ready, 1
    %c0 = arith.constant 0 : index
    scf.if %isArriving {
      scf.for %i = %c0 to %c32 step %c32 {
        // expected-note@+1 {{threads arrive here}}
        fp8moe_kernel.arrive %ready
      }
    } else {
      fp8moe_kernel.wait_parity %ready, %parity
    }
    gpu.return
  }
}

// -----

// No error: each thread has its own mbarrier, or its own iteration, or one elected thread arrives.
gpu.module @kernels {
  gpu.func @right(%shared: !llvm.ptr<3>, %other: !llvm.ptr<3>, %third: !llvm.ptr<3>, %parity: i32, %isFirst: i1)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.index_cast %thread : index to i64
    %own = llvm.getelementptr %shared[%bytes] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i64
    %each = fp8moe_kernel.shared_part mbarrier "each" at %own : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %each, 1
    fp8moe_kernel.arrive %each
    fp8moe_kernel.wait_parity %each, %parity
    %turns = fp8moe_kernel.shared_part mbarrier "turns" at %other : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %turns, 1
    scf.for %turn = %c0 to %c64 step %c1 {
      %isOwn = arith.cmpi eq, %turn, %thread : index
      scf.if %isOwn {
        fp8moe_kernel.arrive %turns
      }
      fp8moe_kernel.wait_parity %turns, %parity
    }
    %perhaps = fp8moe_kernel.shared_part mbarrier "perhaps" at %third : !llvm.ptr<3>
    fp8moe_kernel.mbarrier_init %perhaps, 1
    %isElected = fp8moe_kernel.elect
    scf.if %isElected {
      scf.if %isFirst {
        fp8moe_kernel.arrive %perhaps
      }
    }
    fp8moe_kernel.wait_parity %perhaps, %parity
    gpu.return
  }
}

// -----

// Stage 1 has an mbarrier 'full' but no 'empty'.
gpu.module @kernels {
  gpu.func @unbalanced(%shared: !llvm.ptr<3>, %other: !llvm.ptr<3>, %parity: i32) kernel {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %full = fp8moe_kernel.shared_part full "ring"[%c0] at %shared : !llvm.ptr<3>
    %nextFull = fp8moe_kernel.shared_part full "ring"[%c1] at %shared : !llvm.ptr<3>
    %empty = fp8moe_kernel.shared_part empty "ring"[%c0] at %other : !llvm.ptr<3>
    // expected-error@+1 {{is one of 2 operations that initialize mbarriers 'full' of 'ring', but there are 1 for 'empty'; initialize both for each stage}}
    fp8moe_kernel.mbarrier_init %full, 1
    fp8moe_kernel.mbarrier_init %nextFull, 1
    // expected-note@+1 {{one for 'empty'}}
    fp8moe_kernel.mbarrier_init %empty, 1
    gpu.return
  }
}
