// A kernel that spills with two resident blocks per SM is assembled again for one. The second log
// is shorter than the first: stale text behind it must not be read.

// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-spills.log FAKE_PTXAS_ALONE_LOG=%S/Inputs/ptxas-alone.log \
// RUN:   fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=cubin output=%t ptxas=%S/Inputs/fake-ptxas.sh" -o /dev/null

gpu.module @kernels {
  llvm.func @k() attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 256, 1, 1>, nvvm.minctasm = 2 : i32} {
    llvm.return
  }
}
