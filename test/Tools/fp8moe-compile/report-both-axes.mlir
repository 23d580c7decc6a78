// RUN: fp8moe-compile %s --target=sm_90a -o %t --report | FileCheck %s

// The report says that one kernel quantizes both axes, how long two kernels would take, and which
// kernels are the fallback.

// CHECK: fp8moe.jagged_dynamic_quantize line {{[0-9]+}} {{[0-9.]+}} us
// CHECK: tile single_pass_both_axes<{{.*}}> for group_bytes up_to 50 percent of l2
// CHECK: tile rescaled_both_axes<{{.*}}> for mean_length above
// CHECK: tile axis 0: single_pass_outer<
// CHECK: tile axis 1: register_resident<
// CHECK: both axes at once; a kernel for each takes {{[0-9.]+}} us
// CHECK: quantize_single_pass_both_axes_0 0-1
// CHECK: quantize_rescaled_lines_2 0-1
// CHECK: quantize_rescaled_columns_3 0-1
// CHECK: quantize_single_pass_outer_4 0-1
// CHECK: quantize_two_pass_outer_transposing_5 0-1
// CHECK: quantize_register_resident_6 0-1
func.func @quantize(%grad: tensor<?x2048xbf16>, %offsets: tensor<16xi32>)
    -> (tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x2048xf8E4M3FN>,
        tensor<16x2048xf32>, tensor<?xf32>) {
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %grad groups(%offsets : tensor<16xi32>)
      along [0, 1] rounding pow2
      : tensor<?x2048xbf16>
      -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x2048xf8E4M3FN>,
         tensor<16x2048xf32>, tensor<?xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x2048xf8E4M3FN>,
        tensor<16x2048xf32>, tensor<?xf32>
}
