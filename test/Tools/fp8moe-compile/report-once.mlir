// The layout passes iterate until nothing changes, but each remark is printed once.

// RUN: fp8moe-compile %s --target=sm_90a -o %t --report 2>&1 | FileCheck %s
// CHECK-COUNT-1: remark: not fused
// CHECK-NOT:     remark: not fused

func.func @two_axes(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?x64x!fp8moe.e4m3>) {
  %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  %q0, %s0 = fp8moe.dynamic_quantize %x along [0] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<64xf32>
  return %q1, %q0 : tensor<?x64x!fp8moe.e4m3>, tensor<?x64x!fp8moe.e4m3>
}
