// RUN: fp8moe-compile %s --target=sm_90a -o %t --report | FileCheck %s

// The report says that the single-pass kernel streams its input, and names its fallback for inputs
// that TMA cannot read.

// CHECK: fp8moe.jagged_dynamic_quantize line {{[0-9]+}} {{[0-9.]+}} us
// CHECK: tile single_pass_outer<columns = 64, stages = 13>
// CHECK: outer_transposing: bound by {{latency|bandwidth}}, streamed once through shared memory, {{[0-9]+}} tiles in {{[0-9]+}} waves
// One of the two kernels is launched.
// CHECK: quantize_single_pass_outer_0 0-1
// CHECK: quantize_two_pass_outer_transposing_1 0-1
func.func @quantize(%grad: tensor<?x2048xbf16>, %offsets: tensor<64xi32>)
    -> (tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64x2048xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %grad groups(%offsets : tensor<64xi32>) along [0]
      rounding pow2
      : tensor<?x2048xbf16>
      -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64x2048xf32>
  return %q, %s : tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64x2048xf32>
}
