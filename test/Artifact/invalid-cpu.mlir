// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --test-fp8moe-emit="chip=cpu kind=so output=%t"

// expected-error@+1 {{the compiled code calls 'expf', which is neither defined in the module nor memory management of the C library; lower the operation that it comes from to instructions}}
module {
  llvm.func @k(%x: !llvm.ptr) {
    %0 = llvm.load %x : !llvm.ptr -> f32
    %1 = llvm.intr.exp(%0) : (f32) -> f32
    llvm.store %1, %x : f32, !llvm.ptr
    llvm.return
  }
  fp8moe_plan.program @p {
    %x = fp8moe_plan.input "x" align 4 : memref<f32>
    %c1 = arith.constant 1 : index
    fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
        args(%x) : memref<f32>
  }
}

// -----

module {
  llvm.func @k()
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{launches 'k', which has no body}}
    fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
  }
}

// -----

module {
  llvm.func @k() -> i64 {
    %0 = llvm.mlir.constant(0 : i64) : i64
    llvm.return %0 : i64
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{launches 'k', which returns a value; a kernel writes to its outputs}}
    fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.func @k() {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{launches '@kernels::@k', but a kernel of the CPU is a function of the module itself}}
    fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
  }
}

// -----

module {
  llvm.func @k() {
    llvm.return
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{has a block extent of 2, but cpu has at most 1 threads per block}}
    fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(2, 1, 1) shared 0
  }
}

// -----

module {
  llvm.func @k(%x: !llvm.ptr) {
    // expected-error@+1 {{uses operation 'nvvm.read.ptx.sreg.tid.x' of NVIDIA's GPUs, but the target is cpu}}
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    llvm.store %0, %x : i32, !llvm.ptr
    llvm.return
  }
}
