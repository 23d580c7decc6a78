// RUN: not fp8moe-opt %s --test-fp8moe-emit="chip=gfx942 kind=hsaco output=%t" -o /dev/null 2>&1 | FileCheck %s

// 64 values are alive at once in a kernel that is limited to 24 vector registers: the spill is an
// error.
// CHECK: spills.mlir:[[#@LINE+2]]:3: error: kernel 'k' does not fit its {{[0-9]+}} vector and {{[0-9]+}} scalar registers and spills {{[1-9][0-9]*}}; choose a smaller tile or more threads
gpu.module @kernels {
  llvm.func @k(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel, passthrough = [["amdgpu-num-vgpr", "24"]]} {
    %t = rocdl.workitem.id.x : i32
    %px = llvm.getelementptr %x[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<64xf32>
    %v = llvm.load volatile %px : !llvm.ptr<1> -> vector<64xf32>
    %py = llvm.getelementptr %y[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<64xf32>
    %w = llvm.load volatile %py : !llvm.ptr<1> -> vector<64xf32>
    %s = llvm.fmul %v, %w : vector<64xf32>
    llvm.store volatile %s, %px : vector<64xf32>, !llvm.ptr<1>
    %r = llvm.fadd %v, %w : vector<64xf32>
    llvm.store volatile %r, %py : vector<64xf32>, !llvm.ptr<1>
    llvm.return
  }
}
