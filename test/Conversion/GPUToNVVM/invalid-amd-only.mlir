// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-nvvm)))"

// Each AMD-only operation is an error on NVIDIA targets.

gpu.module @kernels {
  gpu.func @wait_accesses() {
    // expected-error@+1 {{'fp8moe_kernel.wait_accesses' op is an instruction that NVIDIA's GPUs lack; write the kernel without it}}
    fp8moe_kernel.wait_accesses loads 0 shared 0
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @execution_barrier() {
    // expected-error@+1 {{'fp8moe_kernel.execution_barrier' op is an instruction that NVIDIA's GPUs lack; write the kernel without it}}
    fp8moe_kernel.execution_barrier
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @scheduling_fence() {
    // expected-error@+1 {{'fp8moe_kernel.scheduling_fence' op is an instruction that NVIDIA's GPUs lack; write the kernel without it}}
    fp8moe_kernel.scheduling_fence
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @set_priority() {
    // expected-error@+1 {{'fp8moe_kernel.set_priority' op is an instruction that NVIDIA's GPUs lack; write the kernel without it}}
    fp8moe_kernel.set_priority 1
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @mfma(%a: i64, %sums: vector<16xf32>) {
    // expected-error@+1 {{'fp8moe_kernel.mfma' op is an instruction that NVIDIA's GPUs lack; write the kernel without it}}
    %0 = fp8moe_kernel.mfma %a, %a, %sums : f8E4M3FNUZ, f8E4M3FNUZ, i64, vector<16xf32>
    gpu.return
  }
}
