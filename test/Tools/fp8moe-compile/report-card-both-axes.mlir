// RUN: fp8moe-compile %s --target=sm_90a -o %t --report | FileCheck %s --check-prefixes=CHECK,H200
// RUN: fp8moe-compile %s --target=sm_90a -o %t --report --card=h100 | FileCheck %s --check-prefixes=CHECK,H100
// RUN: fp8moe-compile %s --target=sm_90a -o %t --report --card=h20 | FileCheck %s --check-prefixes=CHECK,H20

// Rows that blocks hold are for cards whose memory is slow for their multiprocessors, and the report says what runs
// instead on the one that it predicts for.

#across = #fp8moe.strided<[0, 2, 1]>

// CHECK: fp8moe.dynamic_quantize line 17 {{[0-9.]+}} us
// CHECK:   tile held_both_axes<{{.*}}> for multiprocessor_bandwidth up_to
// H200:    on this card a kernel for each axis
// H100:    {{^ *}}both axes at once; a kernel for each takes {{[0-9.]+}} us
// H20:     on this card a kernel for each axis
func.func @short_lines(%w: tensor<181x2048x512xbf16>)
    -> (tensor<181x2048x512xf8E4M3FN, #across>, tensor<181x2048x512xf8E4M3FN>, tensor<181x512xf32>, tensor<181x2048xf32>) {
  %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
      : tensor<181x2048x512xbf16>
      -> tensor<181x2048x512xf8E4M3FN, #across>, tensor<181x2048x512xf8E4M3FN>, tensor<181x512xf32>, tensor<181x2048xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<181x2048x512xf8E4M3FN, #across>, tensor<181x2048x512xf8E4M3FN>, tensor<181x512xf32>, tensor<181x2048xf32>
}

// CHECK: fp8moe.dynamic_quantize line 32 {{[0-9.]+}} us
// CHECK:   tile held_both_axes<{{.*}}> for multiprocessor_bandwidth up_to
// CHECK:   tile rescaled_both_axes<
// H200:    on this card rescaled_both_axes<{{.*}}>, both axes at once; a kernel for each takes {{[0-9.]+}} us
// H100:    {{^ *}}both axes at once; a kernel for each takes {{[0-9.]+}} us
// H20:     on this card rescaled_both_axes<{{.*}}>, both axes at once; a kernel for each takes {{[0-9.]+}} us
func.func @large_experts(%w: tensor<32x2880x2880xbf16>)
    -> (tensor<32x2880x2880xf8E4M3FN, #across>, tensor<32x2880x2880xf8E4M3FN>, tensor<32x2880xf32>, tensor<32x2880xf32>) {
  %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
      : tensor<32x2880x2880xbf16>
      -> tensor<32x2880x2880xf8E4M3FN, #across>, tensor<32x2880x2880xf8E4M3FN>, tensor<32x2880xf32>, tensor<32x2880xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<32x2880x2880xf8E4M3FN, #across>, tensor<32x2880x2880xf8E4M3FN>, tensor<32x2880xf32>, tensor<32x2880xf32>
}
