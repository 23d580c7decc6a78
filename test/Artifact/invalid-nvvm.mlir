// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --test-fp8moe-emit="chip=sm_90a kind=ptx output=%t"

module {
  gpu.module @kernels {
    llvm.func @k(%x: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
      // expected-error@+1 {{uses operation 'rocdl.workitem.id.x' of AMD's GPUs, but the target is sm_90a}}
      %0 = rocdl.workitem.id.x : i32
      llvm.store %0, %x : i32, !llvm.ptr
      llvm.return
    }
  }
}
