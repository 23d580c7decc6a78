// RUN: fp8moe-opt %s --fp8moe-to-rocdl="chip=gfx942" | FileCheck %s --check-prefixes=CHECK,FNUZ
// RUN: fp8moe-opt %s --fp8moe-to-rocdl="chip=gfx950" | FileCheck %s --check-prefixes=CHECK,FN

// Only the LLVM and ROCDL dialects are left, and the program. One source gives each chip
// its own flavour of FP8.

func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xf32> -> tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-LABEL: llvm.func @quantize_register_resident_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME:    rocdl.kernel
// The number of blocks is a parameter: reading it on the device would call a library.
// CHECK-NOT:     __ockl
// CHECK:         rocdl.workitem.id.x
// CHECK-NOT:     arith.
// No product is too large for the conversion.
// CHECK:         llvm.fmul %{{.*}} : vector<2xf32>
// CHECK-NOT:     llvm.fcmp
// CHECK:         rocdl.cvt.pk.bf8.f32
// CHECK-NOT:     unrealized_conversion_cast
// CHECK-LABEL: fp8moe_plan.program @rows
// FNUZ:          memref<?x64xf8E5M2FNUZ>
// FN:            memref<?x64xf8E5M2>
