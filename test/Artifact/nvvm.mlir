// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=ptx" -o /dev/null | FileCheck %s --check-prefixes=PTX,HOPPER
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=sm_100a kind=ptx" -o /dev/null | FileCheck %s --check-prefixes=PTX,BLACKWELL

// HOPPER: .version 8.3
// HOPPER: .target sm_90a
// BLACKWELL: .version 8.7
// BLACKWELL: .target sm_100a

// The helper is inlined and not emitted. Multiplications and additions are not contracted to FMAs.
// Subnormals are not flushed to zero.
// PTX-NOT: helper
// PTX-NOT: fma
// PTX-NOT: ftz
// PTX: .entry scale
// PTX: .maxntid 256
// PTX-DAG: mul.rn.f32
// PTX-DAG: add.rn.f32
// PTX-NOT: fma
// PTX-NOT: ftz
gpu.module @kernels {
  llvm.func @helper(%x: f32) -> f32 {
    %c3 = llvm.mlir.constant(3.0 : f32) : f32
    %0 = llvm.fmul %x, %c3 : f32
    %1 = llvm.fadd %0, %x : f32
    llvm.return %1 : f32
  }
  llvm.func @scale(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64)
      attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 256>} {
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %i = llvm.sext %t : i32 to i64
    %px = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %py = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %px : !llvm.ptr -> f32
    %w = llvm.call @helper(%v) : (f32) -> f32
    llvm.store %w, %py : f32, !llvm.ptr
    llvm.return
  }
}
