// RUN: fp8moe-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' | FileCheck %s

// MX quantizations of one tensor along both axes become one operation, as a kernel reads the tensor
// once.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @pair
// CHECK-NEXT:    %[[Q:.*]]:2, %[[S:.*]]:2 = fp8moe.mx_quantize %{{.*}} along [1, 0] mode rceil
// CHECK-NEXT:    return %[[Q]]#0, %[[S]]#0, %[[Q]]#1, %[[S]]#1
func.func @pair(%x: tensor<64x96xbf16>)
    -> (tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>, tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>
  %r, %t = fp8moe.mx_quantize %x along [0] mode rceil : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>
  return %q, %s, %r, %t : tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>, tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>
}

// Quantizations are not paired if their modes differ, or if one has square blocks (32x32).
// CHECK-LABEL: func.func @different
// CHECK-COUNT-3: fp8moe.mx_quantize
func.func @different(%x: tensor<64x96xbf16>)
    -> (tensor<64x3xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>
  %r, %t = fp8moe.mx_quantize %x along [0] mode floor : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>
  %u, %v = fp8moe.mx_quantize %x along [0] mode rceil square : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>
  return %s, %t, %v : tensor<64x3xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>
}

// Blocks across the expert dimension stay apart.
// CHECK-LABEL: func.func @across_experts
// CHECK-COUNT-2: fp8moe.mx_quantize
func.func @across_experts(%x: tensor<4x64x96xbf16>) -> (tensor<4x64x3xf8E8M0FNU>, tensor<64x96x1xf8E8M0FNU>) {
  %q, %s = fp8moe.mx_quantize %x along [2] mode rceil : tensor<4x64x96xbf16> -> tensor<4x64x96xf8E4M3FN>, tensor<4x64x3xf8E8M0FNU>
  %r, %t = fp8moe.mx_quantize %x along [0] mode rceil : tensor<4x64x96xbf16> -> tensor<4x64x96xf8E4M3FN>, tensor<64x96x1xf8E8M0FNU>
  return %s, %t : tensor<4x64x3xf8E8M0FNU>, tensor<64x96x1xf8E8M0FNU>
}
}

// -----

// The CPU would read the tensor once per axis in any case.
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// CHECK-LABEL: func.func @cpu
// CHECK-COUNT-2: fp8moe.mx_quantize
func.func @cpu(%x: tensor<64x96xbf16>) -> (tensor<64x3xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>
  %r, %t = fp8moe.mx_quantize %x along [0] mode rceil : tensor<64x96xbf16> -> tensor<64x96xf8E4M3FN>, tensor<96x2xf8E8M0FNU>
  return %s, %t : tensor<64x3xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>
}
}
