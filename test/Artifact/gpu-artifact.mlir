// REQUIRES: ptxas
// RUN: rm -rf %t
// RUN: fp8moe-opt %s --test-fp8moe-write-artifact="chip=sm_90a dir=%t/sm_90a" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: FileCheck %s --input-file=%t/sm_90a/manifest.json
// RUN: llvm-readelf --symbols %t/sm_90a/kernels.cubin | FileCheck %s --check-prefix=CUBIN

// Compiling twice gives the same bytes, the output of the assembler included.
// RUN: fp8moe-opt %s --test-fp8moe-write-artifact="chip=sm_90a dir=%t/again" -o /dev/null
// RUN: diff -r %t/sm_90a %t/again

// Writing an artifact removes kernel files that an artifact for another target left in the folder.
// RUN: touch %t/again/kernels.hsaco
// RUN: fp8moe-opt %s --test-fp8moe-write-artifact="chip=sm_90a dir=%t/again" -o /dev/null
// RUN: diff -r %t/sm_90a %t/again

// REPORT: file {{.*}}/kernels.cubin
// REPORT-NEXT: file {{.*}}/kernels.ptx
// REPORT-NEXT: file {{.*}}/manifest.json
// REPORT-NEXT: kernel copy: registers {{[1-9][0-9]*}}, static shared 0

// CHECK: "chip": "sm_90a",
// CHECK: "file": "kernels.cubin",
// CHECK: "file": "kernels.ptx",
// CHECK: {"kernel": "copy", "grid": [{"value": 0}, 1, 1], "block": [256, 1, 1], "shared": 0, "args": [{"buffer": 0}, {"buffer": 1}]}

// CUBIN: FUNC GLOBAL {{.*}} copy
gpu.module @kernels {
  llvm.func @copy(%x: !llvm.ptr, %y: !llvm.ptr)
      attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 256>} {
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %b = nvvm.read.ptx.sreg.ctaid.x : i32
    %c256 = llvm.mlir.constant(256 : i32) : i32
    %0 = llvm.mul %b, %c256 : i32
    %1 = llvm.add %0, %t : i32
    %i = llvm.sext %1 : i32 to i64
    %px = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %py = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %px : !llvm.ptr -> f32
    llvm.store %v, %py : f32, !llvm.ptr
    llvm.return
  }
}

fp8moe_plan.program @main {
  %x = fp8moe_plan.input "x" align 4 : memref<?x256xf32>
  %n = fp8moe_plan.dim %x, 0 : memref<?x256xf32>
  %y = fp8moe_plan.output "y" sizes(%n) align 4 : memref<?x256xf32>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @kernels::@copy grid(%n, %c1, %c1) block(256, 1, 1)
      shared 0 args(%x, %y) : memref<?x256xf32>, memref<?x256xf32>
}
