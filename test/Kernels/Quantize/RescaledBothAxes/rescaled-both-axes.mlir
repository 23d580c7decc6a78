// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Expert weights along both axes. Rows are quantized from the input, columns from the quantized
// rows. Scales are powers of two, so both differ in exponents only.

#across = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @weights(%w: tensor<16x8192x2048xbf16>)
      -> (tensor<16x8192x2048xf8E4M3FN, #across>, tensor<16x8192x2048xf8E4M3FN>, tensor<16x2048xf32>, tensor<16x8192xf32>) {
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<16x8192x2048xbf16>
        -> tensor<16x8192x2048xf8E4M3FN, #across>, tensor<16x8192x2048xf8E4M3FN>, tensor<16x2048xf32>, tensor<16x8192xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<16x8192x2048xf8E4M3FN, #across>, tensor<16x8192x2048xf8E4M3FN>, tensor<16x2048xf32>, tensor<16x8192xf32>
  }
}

// The next row is loaded before this one is reduced.
// CHECK-LABEL: gpu.func @quantize_rescaled_lines_1
// CHECK:         scf.for
// CHECK-COUNT-2: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// The amax of columns is combined by atomics in global memory. No atomic is issued if the stored
// value is already as large.
// CHECK:         %[[OTHER:.*]] = llvm.load %{{.*}} atomic syncscope("device") monotonic
// CHECK:         %[[IS_LARGER:.*]] = arith.cmpi ugt, %{{.*}}, %[[OTHER]] : i32
// CHECK:         scf.if %[[IS_LARGER]]
// CHECK:           llvm.atomicrmw umax

// CHECK-LABEL: gpu.func @quantize_rescaled_columns_2
// CHECK-DAG:     %[[MAGNITUDES:.*]] = arith.constant 2139062143 : i32
// CHECK-DAG:     %[[STEPS:.*]] = arith.constant 134744072 : i32
// CHECK-DAG:     %[[SIGNS:.*]] = arith.constant -2139062144 : i32
// Four rows are loaded before the scales are computed.
// CHECK-COUNT-4: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         gpu.barrier
// Four FP8 bytes in a word: the difference of exponents is added to their magnitudes. Bit 7 of each
// sum says that it is normal.
// CHECK:         %[[MAGNITUDE:.*]] = arith.andi %{{.*}}, %[[MAGNITUDES]] : i32
// CHECK:         %[[SUM:.*]] = arith.addi %[[MAGNITUDE]], %{{.*}} : i32
// CHECK:         %[[LOW:.*]] = arith.andi %[[SUM]], %[[MAGNITUDES]] : i32
// CHECK:         arith.addi %[[LOW]], %[[STEPS]] : i32
// CHECK:         arith.cmpi eq, %{{.*}}, %[[SIGNS]] : i32
// Vectors with a subnormal result are listed. All threads then quantize them from the input.
// CHECK:         llvm.atomicrmw add %[[COUNT:.*]], %{{.*}} syncscope("block") monotonic
// CHECK:         gpu.barrier
// CHECK:         %[[LISTED:.*]] = llvm.load %[[COUNT]]
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>

// All sizes are static, so no fallback is needed.
// CHECK-LABEL: fp8moe_plan.program @weights
// CHECK:         %[[SLOTS:.*]] = fp8moe_plan.workspace align 256 : memref<32768xi32>
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@clear_words_0
// CHECK-SAME:      args(%[[SLOTS]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_1
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_columns_2
// CHECK-NOT:     fp8moe_plan.launch

// -----

// The host takes the single-pass kernel for groups that fit the L2 cache. Larger ones take two
// kernels: one quantizes rows, the other makes the FP8 of columns from that of rows.

#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @tokens(%x: tensor<?x4096xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x4096xf8E4M3FN, #padded>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        : tensor<?x4096xbf16> -> tensor<?x4096xf8E4M3FN, #padded>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x4096xf8E4M3FN, #padded>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @tokens
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_single_pass_both_axes_
// CHECK-SAME:      when(%[[KEEPS:[^)]*]])
// CHECK:         %[[LEFT:.*]] = arith.xori %[[KEEPS]]
// CHECK:         arith.andi %{{.*}}, %[[LEFT]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_
// CHECK-SAME:      when(%[[RESCALES:[^)]*]])
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_columns_
// CHECK-SAME:      when(%[[RESCALES]])

// -----

// The kernel stores 16-byte vectors of columns. If the pitch is dynamic, the host checks that it is
// a multiple of 16, otherwise one kernel per axis runs. AMD needs no such check.

#across = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @pitch(%x: tensor<?x4096xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x4096xf8E4M3FN, #across>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        tiles [#fp8moe.rescaled_both_axes<threads = 256, chunks = 1, blocks = 4>,
               #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                                 #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>]
        : tensor<?x4096xbf16> -> tensor<?x4096xf8E4M3FN, #across>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x4096xf8E4M3FN, #across>, tensor<?x4096xf8E4M3FN>, tensor<8x4096xf32>, tensor<?xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @pitch
// CHECK:         %[[REST:.*]] = arith.remsi %{{.*}}, %c16 : index
// CHECK:         %[[ARE_WHOLE:.*]] = arith.cmpi eq, %[[REST]], %c0 : index
// CHECK:         %[[APPLIES:.*]] = arith.andi %[[ARE_WHOLE]], %{{.*}} : i1
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_{{.*}} when(%[[APPLIES]])
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_columns_{{.*}} when(%[[APPLIES]])
// CHECK:         %[[REMAINS:.*]] = arith.xori %[[APPLIES]], %true
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_outer_transposing_{{.*}} when(%[[REMAINS]])
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_inner_{{.*}} when(%[[REMAINS]])
