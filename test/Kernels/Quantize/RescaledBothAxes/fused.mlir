// The quantized tensor is computed by another row operation. The kernels of both axes compute its
// rows themselves, so it is never written.
// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))" | FileCheck %s --check-prefix=TILE
// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

#columns = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @tokens(%x: tensor<8192x2048xbf16>, %rows: tensor<65536xi32>, %ends: tensor<128xi32>)
      -> (tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<128x2048xf32>, tensor<65536xf32>) {
    %r = fp8moe.gather_rows %x rows(%rows : tensor<65536xi32>) : tensor<8192x2048xbf16> -> tensor<65536x2048xbf16>
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %r groups(%ends : tensor<128xi32>) along [0, 1] rounding pow2
        : tensor<65536x2048xbf16>
        -> tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<128x2048xf32>, tensor<65536xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<128x2048xf32>, tensor<65536xf32>
  }
}

// TILE-LABEL: func.func @tokens
// TILE:         jagged_dynamic_quantize {{.*}} tiles [#fp8moe.rescaled_both_axes<{{.*}}, fused = true>,

// The index of the row after the next one is loaded together with the next row.
// CHECK-LABEL: gpu.func @quantize_rescaled_lines_1
// CHECK:         scf.for
// CHECK:           %[[ROW:.*]] = arith.extsi %{{.*}} : i32 to i64
// CHECK:           arith.cmpi ult, %[[ROW]],
// CHECK:           llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32

// The gathered tokens have no memory, and no launch writes them.
// CHECK-LABEL: fp8moe_plan.program @tokens
// CHECK:         %[[TOKENS:.*]] = fp8moe_plan.input {{.*}} memref<8192x2048xbf16
// CHECK-NOT:     memref<65536x2048xbf16
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_1
// CHECK-SAME:      %[[TOKENS]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_columns_2
// CHECK-NOT:     fp8moe_plan.launch

// -----

// The gathered tokens are also returned, so a kernel writes them.

#columns = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @also_returned(%x: tensor<8192x2048xbf16>, %rows: tensor<65536xi32>, %ends: tensor<128xi32>)
      -> (tensor<65536x2048xbf16>, tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>,
          tensor<128x2048xf32>, tensor<65536xf32>) {
    %r = fp8moe.gather_rows %x rows(%rows : tensor<65536xi32>) : tensor<8192x2048xbf16> -> tensor<65536x2048xbf16>
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %r groups(%ends : tensor<128xi32>) along [0, 1] rounding pow2
        : tensor<65536x2048xbf16>
        -> tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<128x2048xf32>, tensor<65536xf32>
    return %r, %q#0, %q#1, %s#0, %s#1
        : tensor<65536x2048xbf16>, tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>,
          tensor<128x2048xf32>, tensor<65536xf32>
  }
}

// TILE-LABEL: func.func @also_returned
// TILE-NOT:     fused
// CHECK-LABEL: fp8moe_plan.program @also_returned
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@rows_

// -----

// Rows are computed in the kernels of long groups only. If the host finds short groups, a launch
// writes the rows first.

#columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @ranges(%h: tensor<?x4096xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN, #columns>, tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>, tensor<?xf32>) {
    %a = fp8moe.swiglu %h : tensor<?x4096xbf16> -> tensor<?x2048xbf16>
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %a groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        tiles [#fp8moe.rescaled_both_axes<threads = 128, chunks = 1, blocks = 8, fused = true> for mean_length above 512]
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #columns>, tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x2048xf8E4M3FN, #columns>, tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>, tensor<?xf32>
  }
}

// TILE-LABEL: func.func @ranges
// CHECK-LABEL: fp8moe_plan.program @ranges
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_{{[0-9]+}}
// CHECK-SAME:      when(%[[FUSES:[^)]*]])
// CHECK:         %[[LEFT:.*]] = arith.xori %[[FUSES]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@rows_
// CHECK-SAME:      when(%[[LEFT]])

// -----

// Without groups, two quantizations compute the same rows.

#columns = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @two_readers(%x: tensor<8192x2048xbf16>, %rows: tensor<65536xi32>)
      -> (tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<2048xf32>, tensor<65536xf32>,
          tensor<65536x2048xf8E5M2, #columns>, tensor<65536x2048xf8E5M2>, tensor<2048xf32>, tensor<65536xf32>) {
    %r = fp8moe.gather_rows %x rows(%rows : tensor<65536xi32>) : tensor<8192x2048xbf16> -> tensor<65536x2048xbf16>
    %q:2, %s:2 = fp8moe.dynamic_quantize %r along [0, 1] rounding pow2
        : tensor<65536x2048xbf16>
        -> tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<2048xf32>, tensor<65536xf32>
    %p:2, %t:2 = fp8moe.dynamic_quantize %r along [0, 1] rounding pow2
        : tensor<65536x2048xbf16>
        -> tensor<65536x2048xf8E5M2, #columns>, tensor<65536x2048xf8E5M2>, tensor<2048xf32>, tensor<65536xf32>
    return %q#0, %q#1, %s#0, %s#1, %p#0, %p#1, %t#0, %t#1
        : tensor<65536x2048xf8E4M3FN, #columns>, tensor<65536x2048xf8E4M3FN>, tensor<2048xf32>, tensor<65536xf32>,
          tensor<65536x2048xf8E5M2, #columns>, tensor<65536x2048xf8E5M2>, tensor<2048xf32>, tensor<65536xf32>
  }
}

// TILE-LABEL: func.func @two_readers
// TILE-COUNT-2: fused = true
// CHECK-LABEL: fp8moe_plan.program @two_readers
// CHECK-NOT:     fp8moe_plan.launch @fp8moe_kernels::@rows_
