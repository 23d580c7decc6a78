// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// The kernel follows from the contiguous dimensions. The tile is given on the operation or chosen
// by fp8moe-select-tiles.

// Input and output are contiguous along the reduction: one subgroup per row, without shared memory.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rowwise(%x: tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>)
      -> (tensor<?x2048xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
        : tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>
        -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_two_pass_inner_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[M:.*]]: i64, %[[BLOCKS:.*]]: i64)
// CHECK-SAME:    kernel attributes {known_block_size = array<i32: 256, 1, 1>
// Blocks iterate over the rows with the grid's stride.
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %[[BLOCKS]]
// First pass: 16-byte loads. Magnitudes of bf16 are compared as 16-bit integers.
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:           arith.andi %{{.*}} : vector<4xi32>
// CHECK:           arith.maxui %{{.*}} : vector<8xi16>
// CHECK:         fp8moe_kernel.exchange
// A power-of-two scale is a difference of exponents.
// CHECK:         arith.subi %c-2090860544_i32, %{{.*}} : i32
// CHECK:         arith.andi %{{.*}}, %c2139095040_i32
// CHECK-NOT:     gpu.barrier
// Second pass: 16-byte stores.
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// -----

// The input is row-major, the output column-major: each block transposes some columns of a segment
// in shared memory.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @colwise(%x: tensor<?x2048xbf16>, %ends: tensor<?xi32>)
      -> (tensor<?x2048xf8E4M3FNUZ, #col>, tensor<?x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
        rounding none tiles [#fp8moe.two_pass<columns = 64, threads = 256>] : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FNUZ, #col>, tensor<?x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FNUZ, #col>, tensor<?x2048xf32>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-DAG:     llvm.mlir.global internal @quantize_two_pass_outer_transposing_0_tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<16384 x i8>
// CHECK-DAG:     llvm.mlir.global internal @quantize_two_pass_outer_transposing_0_scales() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<256 x i8>
// CHECK:         gpu.func @quantize_two_pass_outer_transposing_0
// Offsets are clamped to [0, M].
// CHECK:         llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         arith.maxsi
// CHECK:         arith.minsi
// The bounds are uniform in a subgroup.
// CHECK-COUNT-2: fp8moe_kernel.uniform
// The input may be misaligned, which AMD's 16-byte loads allow.
// CHECK-NOT:     llvm.ptrtoint
// CHECK:         llvm.load %{{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         arith.divf %{{.*}} : f64
// CHECK:         fp8moe_kernel.pack_fp8 {{.*}} times {{.*}} products own_scale : f8E4M3FNUZ
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-LABEL: fp8moe_plan.program @colwise
// The grid has one segment more than groups, for remainder rows, which are zeroed.
// CHECK:         %[[E:.*]] = fp8moe_plan.dim %{{.*}}, 0 : memref<?xi32>
// CHECK:         %[[SEGMENTS:.*]] = arith.addi %[[E]], %c1
// CHECK:         arith.muli %[[SEGMENTS]], %c32

// -----

// 3D weights: each expert is a segment. Along K the register-resident kernel is chosen; along N the
// kernel transposes.

#expert_col = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  func.func @weights(%w: tensor<64x2048x1408xbf16, #expert_col>)
      -> (tensor<64x2048x1408xf8E4M3FN, #expert_col>, tensor<64x2048x1408xf8E4M3FN>,
          tensor<64x1408xf32>, tensor<64x2048xf32>) {
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<64x2048x1408xbf16, #expert_col>
        -> tensor<64x2048x1408xf8E4M3FN, #expert_col>, tensor<64x2048x1408xf8E4M3FN>,
           tensor<64x1408xf32>, tensor<64x2048xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<64x2048x1408xf8E4M3FN, #expert_col>, tensor<64x2048x1408xf8E4M3FN>,
          tensor<64x1408xf32>, tensor<64x2048xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @weights
// CHECK-DAG:     %[[FORWARD:.*]] = arith.constant 11264 : index
// CHECK-DAG:     %[[DGRAD:.*]] = arith.constant 2048 : index
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_0 grid(%[[FORWARD]],
// CHECK:         launch @fp8moe_kernels::@quantize_two_pass_outer_transposing_1 grid(%[[DGRAD]],

// -----

// The remaining combinations: outer reduction without transposing, and inner reduction with a
// row-major output.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @others(%x: tensor<?x96xf32>, %y: tensor<?x96xf32, #col>)
      -> (tensor<?x96xf8E5M2>, tensor<96xf32>, tensor<?x96xf8E5M2>, tensor<96xf32>) {
    %q0, %s0 = fp8moe.dynamic_quantize %x along [0] rounding pow2
        : tensor<?x96xf32> -> tensor<?x96xf8E5M2>, tensor<96xf32>
    %q1, %s1 = fp8moe.dynamic_quantize %y along [0] rounding pow2
        : tensor<?x96xf32, #col> -> tensor<?x96xf8E5M2>, tensor<96xf32>
    return %q0, %s0, %q1, %s1
        : tensor<?x96xf8E5M2>, tensor<96xf32>, tensor<?x96xf8E5M2>, tensor<96xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @others
// CHECK:         launch @fp8moe_kernels::@quantize_two_pass_outer_0
// CHECK:         launch @fp8moe_kernels::@quantize_two_pass_inner_transposing_1

// -----

// Padded groups. The quantization sums rounded lengths for the starts of groups, and the relayout
// packs them.

#padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @padded(%x: tensor<100x64xbf16>, %ends: tensor<4xi32>)
      -> (tensor<160x64xf8E4M3FN, #padded>, tensor<4x64xf32>, tensor<100x64xf8E4M3FN>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<4xi32>) along [0]
        rounding pow2 : tensor<100x64xbf16>
        -> tensor<160x64xf8E4M3FN, #padded>, tensor<4x64xf32>
    %p = fp8moe.relayout %q groups(%ends : tensor<4xi32>)
        : tensor<160x64xf8E4M3FN, #padded> -> tensor<100x64xf8E4M3FN>
    return %q, %s, %p
        : tensor<160x64xf8E4M3FN, #padded>, tensor<4x64xf32>, tensor<100x64xf8E4M3FN>
  }
}

// CHECK-LABEL: gpu.func @quantize_two_pass_outer_0
// CHECK:         gpu.shuffle idx
// CHECK-LABEL: gpu.func @copy_groups_1
// CHECK-LABEL: fp8moe_plan.program @padded
// CHECK:         launch @fp8moe_kernels::@quantize_two_pass_outer_0
// CHECK:         launch @fp8moe_kernels::@copy_groups_1

// -----

// A row may have more than 2^32 elements. 32-bit distances to the ends of the row saturate.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @long_rows(%x: tensor<?xf32>) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @copy_vectors_0
// CHECK-NOT:     arith.trunci %{{.*}} : i64 to i32
// CHECK:         arith.maxsi %{{.*}}, %c-2147483648_i64
// CHECK:         %[[LOW:.*]] = arith.minsi %{{.*}}, %c2147483647_i64
// CHECK:         arith.trunci %[[LOW]] : i64 to i32

// -----

// Without columns nothing is launched. Choosing a tile must still work.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: fp8moe_plan.program @no_columns
  // CHECK:         fp8moe_plan.output "result1"
  // CHECK-NOT:     fp8moe_plan.launch
  func.func @no_columns(%x: tensor<?x0xbf16>, %ends: tensor<4xi32>)
      -> (tensor<?x0xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>, tensor<4x0xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<4xi32>) along [0] rounding pow2
        : tensor<?x0xbf16> -> tensor<?x0xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>, tensor<4x0xf32>
    return %q, %s : tensor<?x0xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>, tensor<4x0xf32>
  }
}
