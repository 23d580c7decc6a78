// RUN: fp8moe-opt %s --fp8moe-to-rocdl="chip=gfx942" | FileCheck %s --check-prefixes=CHECK,FNUZ
// RUN: fp8moe-opt %s --fp8moe-to-rocdl="chip=gfx950" | FileCheck %s --check-prefixes=CHECK,FN

// The pipeline leaves only the LLVM and ROCDL dialects and the program. The neutral FP8 type
// becomes FNUZ on gfx942 and OCP on gfx950.

func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xf32> -> tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e5m2>, tensor<?xf32>
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-LABEL: llvm.func @quantize_register_resident_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME:    rocdl.kernel
// The grid size is a kernel parameter: reading it on the device would need ROCm's device library.
// CHECK-NOT:     __ockl
// CHECK:         rocdl.workitem.id.x
// CHECK-NOT:     arith.
// Products with a scale of `rounding pow2` cannot overflow the FP8 type, so no clamp and no NaN
// check is emitted.
// CHECK:         llvm.fmul %{{.*}} : vector<2xf32>
// CHECK-NOT:     llvm.fcmp
// CHECK:         rocdl.cvt.pk.bf8.f32
// CHECK-NOT:     unrealized_conversion_cast
// CHECK-LABEL: fp8moe_plan.program @rows
// FNUZ:          memref<?x64xf8E5M2FNUZ>
// FN:            memref<?x64xf8E5M2>
