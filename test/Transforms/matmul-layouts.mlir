// Grouped matmuls require layouts of their operands, which layout placement provides. The CPU
// requires none.

// RUN: fp8moe-opt %s --fp8moe-optimize-layouts --split-input-file | FileCheck %s

#ecol = #fp8moe.strided<[0, 2, 1]>

// The quantization of row-major weights writes them column-major, as the matmul requires.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @quantized_weights
// CHECK-NOT:     relayout
// CHECK:         dynamic_quantize %arg2 along [1] {{.*}} -> tensor<4x64x32xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
// CHECK-NOT:     relayout
// CHECK:         return
func.func @quantized_weights(%a: tensor<?x64xf8E4M3FN>, %sa: tensor<?xf32>, %w: tensor<4x64x32xbf16>, %ends: tensor<4xi32>)
    -> tensor<?x32xbf16> {
  %b, %sb = fp8moe.dynamic_quantize %w along [1] rounding pow2 : tensor<4x64x32xbf16>
      -> tensor<4x64x32xf8E4M3FN>, tensor<4x32xf32>
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<4x32xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<4x64x32xf8E4M3FN> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// Arguments have the layouts of their types. Only the operand in another layout is copied.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @fp8_operands
// CHECK-NEXT:    %[[COPY:.*]] = fp8moe.relayout %arg1 : tensor<4x64x32xf8E4M3FN> -> tensor<4x64x32xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
// CHECK-NEXT:    grouped_matmul %arg0, %[[COPY]]
// CHECK-NEXT:    return
func.func @fp8_operands(%a: tensor<?x64xf8E4M3FN>, %b: tensor<4x64x32xf8E4M3FN>, %ends: tensor<4xi32>,
                        %sa: tensor<?xf32>, %sb: tensor<4x32xf32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<4x32xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<4x64x32xf8E4M3FN> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// wgmma also reads MN-major bf16 operands, so weights and their transposes are not copied. The
// expert dimension must be outermost.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @bf16_operands
// CHECK-NOT:     relayout
// CHECK:         grouped_matmul %arg0, %arg1
// CHECK-NOT:     relayout
// CHECK:         grouped_matmul
// CHECK-NEXT:    return
func.func @bf16_operands(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %ends: tensor<4xi32>)
    -> (tensor<?x32xbf16>, tensor<?x64xbf16>) {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x64xbf16>, tensor<4x64x32xbf16> -> tensor<?x32xbf16>
  %t = fp8moe.transpose %b [0, 2, 1] : tensor<4x64x32xbf16> -> tensor<4x32x64xbf16, #fp8moe.strided<[0, 2, 1]>>
  %x = fp8moe.grouped_matmul %y, %t groups(%ends : tensor<4xi32>)
      : tensor<?x32xbf16>, tensor<4x32x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
  return %y, %x : tensor<?x32xbf16>, tensor<?x64xbf16>
}

// wgrad reads activations in bf16 without a copy, too.
// CHECK-LABEL: func.func @bf16_gradient
// CHECK-NOT:     relayout
// CHECK:         return
func.func @bf16_gradient(%dy: tensor<?x32xbf16>, %x: tensor<?x64xbf16>, %ends: tensor<4xi32>) -> tensor<4x32x64xbf16> {
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x32xbf16> -> tensor<32x?xbf16, #fp8moe.strided<[1, 0]>>
  %y = fp8moe.grouped_matmul %t, %x groups(%ends : tensor<4xi32>)
      : tensor<32x?xbf16, #fp8moe.strided<[1, 0]>>, tensor<?x64xbf16> -> tensor<4x32x64xbf16>
  return %y : tensor<4x32x64xbf16>
}

// Copies are needed if experts are the innermost dimension, or if A is MN-major in an M-grouped
// matmul.
// CHECK-LABEL: func.func @other_orders
// CHECK-DAG:     %[[A:.*]] = fp8moe.relayout %arg0 : tensor<?x64xbf16, #{{.*}}> -> tensor<?x64xbf16>
// CHECK-DAG:     %[[B:.*]] = fp8moe.relayout %arg1 : tensor<4x64x32xbf16, #{{.*}}> -> tensor<4x64x32xbf16
// CHECK:         grouped_matmul %[[A]], %[[B]]
func.func @other_orders(%a: tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>, %b: tensor<4x64x32xbf16, #fp8moe.strided<[1, 2, 0]>>,
                        %ends: tensor<4xi32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>, tensor<4x64x32xbf16, #fp8moe.strided<[1, 2, 0]>> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// 60 columns are no multiple of 16 bytes, which TMA needs, but 64 elements of K are. A dynamic
// number of columns may be none either. B is copied.
// CHECK-LABEL: func.func @no_pitch
// CHECK:         relayout %arg1
// CHECK-LABEL: func.func @unknown_pitch
// CHECK:         relayout %arg1
func.func @no_pitch(%a: tensor<?x64xbf16>, %b: tensor<4x64x60xbf16>, %ends: tensor<4xi32>) -> tensor<?x60xf32> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x64xbf16>, tensor<4x64x60xbf16> -> tensor<?x60xf32>
  return %y : tensor<?x60xf32>
}
func.func @unknown_pitch(%a: tensor<?x64xbf16>, %b: tensor<4x64x?xbf16>, %ends: tensor<4xi32>) -> tensor<?x?xf32> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x64xbf16>, tensor<4x64x?xbf16> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
}

// -----

// The addend has the layout of the result, whose layout is the caller's: no copies.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @accumulated
// CHECK-NEXT:    grouped_matmul {{.*}} accumulate(%arg3 : tensor<4x64x32xf32>) {{.*}} -> tensor<4x64x32xf32>
// CHECK-NEXT:    return
func.func @accumulated(%a: tensor<64x?xbf16>, %b: tensor<?x32xbf16, #col>, %ends: tensor<4xi32>, %c: tensor<4x64x32xf32>)
    -> tensor<4x64x32xf32> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulate(%c : tensor<4x64x32xf32>)
      : tensor<64x?xbf16>, tensor<?x32xbf16, #col> -> tensor<4x64x32xf32>
  return %y : tensor<4x64x32xf32>
}
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// CHECK-LABEL: func.func @on_cpu
// CHECK-NEXT:    grouped_matmul %arg0, %arg1
// CHECK-NEXT:    return
func.func @on_cpu(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %ends: tensor<4xi32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x64xbf16>, tensor<4x64x32xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}
