// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Both axes are quantized from one load of the input. Each thread has the 32 rows of a block in its
// columns. The amax of a row's block is combined by shuffles between the threads of 32 columns.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @both(%x: tensor<?x2048xbf16>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>) {
    %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode ceil : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>
    return %q0, %q1, %s0, %s1
        : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>
  }
}

// Each axis has its own buffer in shared memory for its data.
// CHECK:         llvm.mlir.global internal @mx_quantize_both_0_tile() {{.*}} !llvm.array<16384 x i8>
// CHECK:         llvm.mlir.global internal @mx_quantize_both_0_tile_across() {{.*}} !llvm.array<16384 x i8>
// CHECK-LABEL: gpu.func @mx_quantize_both_0
// CHECK-COUNT-32: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// 16 lanes hold 32 columns. The reduction of 32 row maxima exchanges 8 + 4 + 2 + 1 words before
// anything is converted.
// CHECK-NOT:     fp8moe_kernel.pack_fp8
// CHECK-COUNT-8: gpu.shuffle xor %{{.*}}, %c8_i32
// CHECK-COUNT-4: gpu.shuffle xor %{{.*}}, %c4_i32
// CHECK-COUNT-2: gpu.shuffle xor %{{.*}}, %c2_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c1_i32
// CHECK-NOT:     gpu.shuffle
// (X10), mode ceil: the scale is rounded up to a power of two. A nonzero mantissa carries into the
// exponent.
// CHECK:         %[[ROUNDED:.*]] = arith.addi %{{.*}}, %c8388607_i32
// CHECK:         arith.shrui %[[ROUNDED]], %c23_i32
// CHECK:         fp8moe_kernel.subgroup_barrier
// CHECK:         arith.mulf %{{.*}} : vector<8xbf16>
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK-LABEL: fp8moe_plan.program @both
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@mx_quantize_both_0
// CHECK-NOT:     fp8moe_plan.launch

// -----

// Square blocks of 32x32 have one amax for both axes.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @square(%x: tensor<512x2048xf32>)
      -> (tensor<512x2048xf8E5M2, #col>, tensor<512x2048xf8E5M2>, tensor<2048x16xf8E8M0FNU>, tensor<512x64xf8E8M0FNU>) {
    %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode even square : tensor<512x2048xf32>
        -> tensor<512x2048xf8E5M2, #col>, tensor<512x2048xf8E5M2>, tensor<2048x16xf8E8M0FNU>, tensor<512x64xf8E8M0FNU>
    return %q0, %q1, %s0, %s1
        : tensor<512x2048xf8E5M2, #col>, tensor<512x2048xf8E5M2>, tensor<2048x16xf8E8M0FNU>, tensor<512x64xf8E8M0FNU>
  }
}

// CHECK-LABEL: gpu.func @mx_quantize_both_0
// With f32, 32 lanes hold 32 columns.
// CHECK:         gpu.shuffle xor %{{.*}}, %c1_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c2_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c4_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c8_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c16_i32
// (X11), mode even: amax is rounded to two mantissa bits. Half a unit of the last place is added.
// CHECK:         arith.addi %{{.*}}, %c1048576_i32
// CHECK-NOT:     gpu.shuffle
// CHECK-LABEL: fp8moe_plan.program @square

// -----

// Square blocks along rows: 32 rows belong to 64 threads in two subgroups, which combine their
// maxima in shared memory.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @square_rows(%x: tensor<?x2048xbf16>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>) {
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil square : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>
    return %q, %s : tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>
  }
}

// CHECK:         llvm.mlir.global internal @mx_quantize_inner_0_halves() {{.*}} !llvm.array<128 x i8>
// CHECK-LABEL: gpu.func @mx_quantize_inner_0
// CHECK:         gpu.shuffle xor %{{.*}}, %c1_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c8_i32
// CHECK:         gpu.shuffle xor %{{.*}}, %c16_i32
// CHECK:         gpu.barrier
// CHECK:         llvm.store %[[HALF:.*]], %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         %[[OTHER:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK:         arith.maxui %[[HALF]], %[[OTHER]]

// -----

// No stride of the input is known, so each axis gets its own launch.

#any = #fp8moe.strided<[0, 1], strides = [?, ?]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @apart(%x: tensor<?x2048xbf16, #any>)
      -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>) {
    %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode ceil : tensor<?x2048xbf16, #any>
        -> tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>
    return %q0, %q1, %s0, %s1
        : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU>, tensor<?x64xf8E8M0FNU>
  }
}

// CHECK-LABEL: fp8moe_plan.program @apart
// CHECK-COUNT-2: fp8moe_plan.launch

// -----

// This kernel would have 640 threads, which leaves too few registers for both axes. Each axis gets
// its own launch.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @groups_of_f32(%x: tensor<?x2048xf32>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>,
          tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>) {
    %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil groups(%ends : tensor<8xi32>) : tensor<?x2048xf32>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>,
           tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
    return %q0, %q1, %s0, %s1
        : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<2048x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>,
          tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  }
}

// CHECK-LABEL: fp8moe_plan.program @groups_of_f32
// CHECK:         fp8moe_plan.launch {{.*}}mx_quantize_outer
// CHECK:         fp8moe_plan.launch {{.*}}mx_quantize_inner
