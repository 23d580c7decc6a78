// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))"

gpu.module @kernels {
  gpu.func @sum(%word: i32) -> i32 {
    // expected-error@+1 {{failed to legalize operation 'gpu.subgroup_reduce'}}
    %sum = gpu.subgroup_reduce add %word : (i32) -> i32
    gpu.return %sum : i32
  }
}

// -----

gpu.module @kernels {
  gpu.func @warp(%condition: i1) -> i32 {
    // expected-error@+1 {{'fp8moe_kernel.ballot' op has a result of 'i32'; subgroups of AMD's GPUs have 64 lanes, so it is an i64}}
    %lanes = fp8moe_kernel.ballot %condition : i32
    gpu.return %lanes : i32
  }
}
