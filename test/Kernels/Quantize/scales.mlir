// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// `scale` uses the first pass of the two-pass kernel: nothing is converted.

#aligned = #fp8moe.strided<[0, 1], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rows(%x: tensor<?x2048xbf16, #aligned>) -> tensor<?xf32> {
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x2048xbf16, #aligned> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @scale_inner_0
// CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         arith.maxui %{{.*}} : vector<8xi16>
// CHECK-NOT:     fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT:     fp8moe_kernel.pack_fp8
// CHECK-LABEL: fp8moe_plan.program @rows
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@scale_inner_0

// -----

// Scales of groups, computed column by column.
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @groups(%x: tensor<?x2048xf32>, %ends: tensor<8xi32>) -> tensor<8x2048xf32> {
    %s = fp8moe.jagged_scale %x groups(%ends : tensor<8xi32>) along 0 rounding none fp8 f8E5M2FNUZ
        : tensor<?x2048xf32> -> tensor<8x2048xf32>
    return %s : tensor<8x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @scale_outer_0
// CHECK:         arith.divf %{{.*}} : f64
// CHECK-NOT:     fp8moe_kernel.pack_fp8
// CHECK-LABEL: fp8moe_plan.program @groups
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@scale_outer_0
