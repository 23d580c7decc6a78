// RUN: fp8moe-opt %s --fp8moe-to-nvvm="chip=sm_90a" --verify-diagnostics

// The pipeline checks kernels before it lowers shared_part, whose names the checks need.
gpu.module @kernels {
  gpu.func @k() kernel {
    %shared = llvm.mlir.zero : !llvm.ptr<3>
    %c0 = arith.constant 0 : i32
    %ready = fp8moe_kernel.shared_part mbarrier "ready" at %shared : !llvm.ptr<3>
    // expected-error@+1 {{waits for an mbarrier of 'ready', but the kernel initializes none}}
    fp8moe_kernel.wait_parity %ready, %c0
    gpu.return
  }
}

fp8moe_plan.program @launch {
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(32, 1, 1) shared 0 args()
}
