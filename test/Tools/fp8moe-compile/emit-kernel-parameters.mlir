// The comment before a kernel uses the kernel's own parameter names. They are unique.

// RUN: fp8moe-compile %s --target=sm_90a --emit=kernel | FileCheck %s

// CHECK: // %[[ROWS:size]]: muli(
// CHECK: // %[[LEAST:size_0]]: maxsi(muli(
// CHECK: gpu.func @quantize_two_pass_outer_transposing_0(
// CHECK-SAME: %[[ROWS]]: i64
// CHECK-SAME: %[[LEAST]]: i64
func.func @columns(%x: tensor<?x2560xbf16> {fp8moe.name = "x"}, %ends: tensor<8xi32> {fp8moe.name = "ends"})
    -> (tensor<?x2560x!fp8moe.e4m3, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>> {fp8moe.name = "q"},
        tensor<8x2560xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2560xbf16> -> tensor<?x2560x!fp8moe.e4m3, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>>, tensor<8x2560xf32>
  return %q, %s : tensor<?x2560x!fp8moe.e4m3, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>>, tensor<8x2560xf32>
}
