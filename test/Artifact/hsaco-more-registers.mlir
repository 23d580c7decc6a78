// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx950 kind=hsaco output=%t.hsaco" -o /dev/null
// RUN: llvm-readelf --notes %t.hsaco | FileCheck %s

// A kernel that spills at eight waves per SIMD (64 registers) is compiled again for fewer waves.
// This also holds for a cooperative launch: the runtime refuses a grid that no longer fits the
// device.

// CHECK: .vgpr_count: {{1[0-9][0-9]}}
// CHECK: .vgpr_spill_count: 0

gpu.module @kernels {
  llvm.func @k(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>)
      attributes {gpu.kernel, rocdl.kernel, passthrough = [["amdgpu-waves-per-eu", "8"]], rocdl.flat_work_group_size = "256,256"} {
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

fp8moe_plan.program @f {
  %x = fp8moe_plan.input "x" align 4 : memref<16384xf32>
  %y = fp8moe_plan.output "y" align 4 : memref<16384xf32>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 cooperative
      args(%x, %y) : memref<16384xf32>, memref<16384xf32>
}
