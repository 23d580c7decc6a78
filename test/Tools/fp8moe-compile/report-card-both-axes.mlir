// RUN: fp8moe-compile %s --target=sm_90a -o %t --report | FileCheck %s --check-prefixes=CHECK,H200
// RUN: fp8moe-compile %s --target=sm_90a -o %t --report --card=h100 | FileCheck %s --check-prefixes=CHECK,H100

// Groups of 28.7 MB fit into half of an H200's L2 cache, but not of an H100's. The report says
// which kernel runs on the card that --card names.

#columns = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

// CHECK: fp8moe.jagged_dynamic_quantize line 15 {{[0-9.]+}} us
// CHECK:   tile single_pass_both_axes<{{.*}}> for group_bytes up_to 50 percent of l2
// H200:    {{^ *}}both axes at once; a kernel for each takes {{[0-9.]+}} us
// H100:    on this card a kernel for each axis
func.func @tokens(%x: tensor<44800x5120xbf16>, %ends: tensor<16xi32>)
    -> (tensor<46848x5120xf8E4M3FN, #columns>, tensor<44800x5120xf8E4M3FN>, tensor<16x5120xf32>, tensor<44800xf32>) {
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 10240, row_stages = 7>
             for group_bytes up_to 50 percent of l2]
      : tensor<44800x5120xbf16>
      -> tensor<46848x5120xf8E4M3FN, #columns>, tensor<44800x5120xf8E4M3FN>, tensor<16x5120xf32>, tensor<44800xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<46848x5120xf8E4M3FN, #columns>, tensor<44800x5120xf8E4M3FN>, tensor<16x5120xf32>, tensor<44800xf32>
}
