// RUN: fp8moe-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(func.func(fp8moe-pad-groups))' | FileCheck %s

#col = #fp8moe.strided<[1, 0]>

// Both operands of wgrad are quantized here and have no other users, so they get padded groups. The
// transposed view follows.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @weight_gradient
// CHECK:         jagged_dynamic_quantize %{{.*}} -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>, tensor<8x64xf32>
// CHECK:         jagged_dynamic_quantize %{{.*}} -> tensor<?x32xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>, tensor<8x32xf32>
// CHECK:         transpose {{.*}} -> tensor<64x?xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>>
// CHECK:         grouped_matmul {{.*}} : tensor<64x?xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>>, tensor<?x32xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>
func.func @weight_gradient(%dy: tensor<?x64xbf16>, %x: tensor<?x32xbf16>, %ends: tensor<8xi32>)
    -> tensor<8x64x32xbf16> {
  %a, %sa = fp8moe.jagged_dynamic_quantize %dy groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN, #col>, tensor<8x64xf32>
  %b, %sb = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<8x32xf32>
  %at = fp8moe.transpose %a [1, 0] : tensor<?x64xf8E4M3FN, #col> -> tensor<64x?xf8E4M3FN>
  %w = fp8moe.grouped_matmul %at, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xbf16>
  return %w : tensor<8x64x32xbf16>
}
}

// -----

// Two wgrads share an operand, as in a gated layer, so all three quantizations are padded or none.
// The padded extent is round_up(1000 + 8 * 127, 128) = 2048. The result along rows is not an
// operand and stays.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @shared_operand
// CHECK:         jagged_dynamic_quantize %{{.*}} -> tensor<2048x32xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>, tensor<1000x32xf8E4M3FN>, tensor<8x32xf32>, tensor<1000xf32>
// CHECK:         jagged_dynamic_quantize %{{.*}} -> tensor<64x2048xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>>
// CHECK:         jagged_dynamic_quantize %{{.*}} -> tensor<64x2048xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>>
func.func @shared_operand(%dy0: tensor<64x1000xbf16>, %dy1: tensor<64x1000xbf16>, %x: tensor<1000x32xbf16>,
    %ends: tensor<8xi32>) -> (tensor<8x64x32xf32>, tensor<8x64x32xf32>, tensor<1000x32xf8E4M3FN>, tensor<1000xf32>) {
  %b, %r, %sb, %sr = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
      : tensor<1000x32xbf16>
      -> tensor<1000x32xf8E4M3FN, #col>, tensor<1000x32xf8E4M3FN>, tensor<8x32xf32>, tensor<1000xf32>
  %a0, %sa0 = fp8moe.jagged_dynamic_quantize %dy0 groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x1000xbf16> -> tensor<64x1000xf8E4M3FN>, tensor<8x64xf32>
  %a1, %sa1 = fp8moe.jagged_dynamic_quantize %dy1 groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x1000xbf16> -> tensor<64x1000xf8E4M3FN>, tensor<8x64xf32>
  %w0 = fp8moe.grouped_matmul %a0, %b groups(%ends : tensor<8xi32>)
      scales(%sa0, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x1000xf8E4M3FN>, tensor<1000x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  %w1 = fp8moe.grouped_matmul %a1, %b groups(%ends : tensor<8xi32>)
      scales(%sa1, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x1000xf8E4M3FN>, tensor<1000x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  return %w0, %w1, %r, %sr : tensor<8x64x32xf32>, tensor<8x64x32xf32>, tensor<1000x32xf8E4M3FN>, tensor<1000xf32>
}
}

// -----

// An operand of the first wgrad is an argument, so nothing is padded. The second wgrad shares the
// other operand, so it is not padded either.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @operand_from_outside
// CHECK-NOT:     pad = 128
func.func @operand_from_outside(%a0: tensor<64x?xf8E4M3FN>, %sa0: tensor<8x64xf32>, %dy: tensor<64x?xbf16>,
    %x: tensor<?x32xbf16>, %ends: tensor<8xi32>) -> (tensor<8x64x32xf32>, tensor<8x64x32xf32>) {
  %b, %sb = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<8x32xf32>
  %a1, %sa1 = fp8moe.jagged_dynamic_quantize %dy groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x?xbf16> -> tensor<64x?xf8E4M3FN>, tensor<8x64xf32>
  %w0 = fp8moe.grouped_matmul %a0, %b groups(%ends : tensor<8xi32>)
      scales(%sa0, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  %w1 = fp8moe.grouped_matmul %a1, %b groups(%ends : tensor<8xi32>)
      scales(%sa1, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  return %w0, %w1 : tensor<8x64x32xf32>, tensor<8x64x32xf32>
}
}

// -----

// The quantized data are also returned, so their type must stay.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @also_returned
// CHECK-NOT:     pad = 128
func.func @also_returned(%dy: tensor<64x?xbf16>, %x: tensor<?x32xbf16>, %ends: tensor<8xi32>)
    -> (tensor<8x64x32xf32>, tensor<?x32xf8E4M3FN, #col>) {
  %b, %sb = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<8x32xf32>
  %a, %sa = fp8moe.jagged_dynamic_quantize %dy groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x?xbf16> -> tensor<64x?xf8E4M3FN>, tensor<8x64xf32>
  %w = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  return %w, %b : tensor<8x64x32xf32>, tensor<?x32xf8E4M3FN, #col>
}
}

// -----

// The quantization has other offsets than the matmul.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @other_offsets
// CHECK-NOT:     pad = 128
func.func @other_offsets(%dy: tensor<64x?xbf16>, %x: tensor<?x32xbf16>, %ends: tensor<8xi32>, %others: tensor<8xi32>)
    -> tensor<8x64x32xf32> {
  %b, %sb = fp8moe.jagged_dynamic_quantize %x groups(%others : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<8x32xf32>
  %a, %sa = fp8moe.jagged_dynamic_quantize %dy groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x?xbf16> -> tensor<64x?xf8E4M3FN>, tensor<8x64xf32>
  %w = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  return %w : tensor<8x64x32xf32>
}
}

// -----

// Padding has no benefit on the CPU.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// CHECK-LABEL: func.func @on_cpu
// CHECK-NOT:     pad = 128
func.func @on_cpu(%dy: tensor<64x?xbf16>, %x: tensor<?x32xbf16>, %ends: tensor<8xi32>) -> tensor<8x64x32xf32> {
  %b, %sb = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<8x32xf32>
  %a, %sa = fp8moe.jagged_dynamic_quantize %dy groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x?xbf16> -> tensor<64x?xf8E4M3FN>, tensor<8x64xf32>
  %w = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x64xf32>, tensor<8x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<8x64x32xf32>
  return %w : tensor<8x64x32xf32>
}
}
