// RUN: fp8moe-opt %s --fp8moe-to-nvvm="chip=sm_90a" | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-to-nvvm="chip=sm_100a" | FileCheck %s

// The pipeline leaves only the LLVM and NVVM dialects and the program. Kernels take pointers and
// i64s.

func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xf32> -> tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-LABEL: llvm.func @quantize_register_resident_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME:    nvvm.kernel
// CHECK-SAME:    nvvm.maxntid = array<i32: 128, 1, 1>
// CHECK-SAME:    nvvm.minctasm = {{[0-9]+}}
// CHECK-NOT:     gpu.thread_id
// CHECK:         nvvm.read.ptx.sreg.tid.x
// CHECK-NOT:     arith.
// CHECK:         nvvm.shfl.sync bfly
// CHECK-NOT:     arith.
// CHECK:         nvvm.convert.f32x2.to.f8x2 {{.*}}(f8E5M2)
// CHECK-NOT:     unrealized_conversion_cast
// CHECK-LABEL: fp8moe_plan.program @rows
