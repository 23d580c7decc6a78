// RUN: fp8moe-opt %s --split-input-file --fp8moe-plan-cpu-entries | FileCheck %s

// The output may overwrite the addend. Each element of the addend is read before the sum is written
// to its place.

// CHECK-LABEL: fp8moe_plan.program @sum
// CHECK:         %[[C:.*]] = fp8moe_plan.input "c"
// CHECK:         fp8moe_plan.output "result0" may_overwrite(%[[C]] : memref<?x16xf32>) sizes(
func.func @sum(%a: tensor<?x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<?x16xf32> {fp8moe.name = "c"}) -> tensor<?x16xf32> {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<?x16xf32>)
      : tensor<?x32xbf16>, tensor<32x16xbf16> -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}

// -----

// CHECK-LABEL: fp8moe_plan.program @gradient
// CHECK:         %[[C:.*]] = fp8moe_plan.input "c"
// CHECK:         fp8moe_plan.output "result0" may_overwrite(%[[C]] : memref<4x16x32xf32>)
func.func @gradient(%a: tensor<16x?xbf16>, %b: tensor<?x32xbf16>, %ends: tensor<4xi32>, %c: tensor<4x16x32xf32> {fp8moe.name = "c"}) -> tensor<4x16x32xf32> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulate(%c : tensor<4x16x32xf32>)
      : tensor<16x?xbf16>, tensor<?x32xbf16> -> tensor<4x16x32xf32>
  return %y : tensor<4x16x32xf32>
}

// -----

// The output may overwrite the addend if both are seen through the same transpose.

// CHECK-LABEL: fp8moe_plan.program @transposed
// CHECK:         %[[C:.*]] = fp8moe_plan.input "c"
// CHECK:         fp8moe_plan.output "result0" may_overwrite(%[[C]] : memref<4x32x16xf32>)
func.func @transposed(%a: tensor<16x?xbf16>, %b: tensor<?x32xbf16>, %ends: tensor<4xi32>, %c: tensor<4x32x16xf32> {fp8moe.name = "c"}) -> tensor<4x32x16xf32> {
  %t = fp8moe.transpose %c [0, 2, 1] : tensor<4x32x16xf32> -> tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulate(%t : tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>)
      : tensor<16x?xbf16>, tensor<?x32xbf16> -> tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>
  %r = fp8moe.transpose %y [0, 2, 1] : tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>> -> tensor<4x32x16xf32>
  return %r : tensor<4x32x16xf32>
}

// -----

// No overwriting, as another operation reads the transposed addend.

// CHECK-LABEL: fp8moe_plan.program @transposed_and_read
// CHECK-NOT:     may_overwrite
func.func @transposed_and_read(%a: tensor<16x?xbf16>, %b: tensor<?x32xbf16>, %ends: tensor<4xi32>, %c: tensor<4x32x16xf32>) -> (tensor<4x32x16xf32>, tensor<4x32x16xf8E4M3FN>) {
  %t = fp8moe.transpose %c [0, 2, 1] : tensor<4x32x16xf32> -> tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulate(%t : tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>)
      : tensor<16x?xbf16>, tensor<?x32xbf16> -> tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>>
  %r = fp8moe.transpose %y [0, 2, 1] : tensor<4x16x32xf32, #fp8moe.strided<[0, 2, 1]>> -> tensor<4x32x16xf32>
  %q, %s = fp8moe.dynamic_quantize %c along [2] rounding pow2 : tensor<4x32x16xf32> -> tensor<4x32x16xf8E4M3FN>, tensor<4x32xf32>
  return %r, %q : tensor<4x32x16xf32>, tensor<4x32x16xf8E4M3FN>
}

// -----

// No overwriting, as another operation reads the addend.

// CHECK-LABEL: fp8moe_plan.program @read_again
// CHECK-NOT:     may_overwrite
func.func @read_again(%a: tensor<8x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf8E4M3FN>) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<8x16xf32>)
      : tensor<8x32xbf16>, tensor<32x16xbf16> -> tensor<8x16xf32>
  %q, %s = fp8moe.dynamic_quantize %c along [1] rounding pow2 : tensor<8x16xf32> -> tensor<8x16xf8E4M3FN>, tensor<8xf32>
  return %y, %q : tensor<8x16xf32>, tensor<8x16xf8E4M3FN>
}

// -----

// No overwriting, as the matmul reads the addend as an operand, too.

// CHECK-LABEL: fp8moe_plan.program @multiplied
// CHECK-NOT:     may_overwrite
func.func @multiplied(%b: tensor<16x16xbf16>, %c: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
  %y = fp8moe.linear %c, %b accumulate(%c : tensor<16x16xbf16>)
      : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %y : tensor<16x16xbf16>
}

// -----

// No overwriting, as the sum is copied to a second result.

// CHECK-LABEL: fp8moe_plan.program @twice
// CHECK-NOT:     may_overwrite
func.func @twice(%a: tensor<8x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<8x16xf32>)
      : tensor<8x32xbf16>, tensor<32x16xbf16> -> tensor<8x16xf32>
  return %y, %y : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----
// No overwriting without an addend.


// CHECK-LABEL: fp8moe_plan.program @product
// CHECK-NOT:     may_overwrite
func.func @product(%a: tensor<8x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = fp8moe.linear %a, %b : tensor<8x32xbf16>, tensor<32x16xbf16> -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
