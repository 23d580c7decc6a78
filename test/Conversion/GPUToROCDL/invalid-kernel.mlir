// RUN: fp8moe-opt %s --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))"

gpu.module @kernels {
  gpu.func @sum(%word: i32) -> i32 {
    // expected-error@+1 {{failed to legalize operation 'gpu.subgroup_reduce'}}
    %sum = gpu.subgroup_reduce add %word : (i32) -> i32
    gpu.return %sum : i32
  }
}
