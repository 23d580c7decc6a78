// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-select-tiles),fp8moe-sweep-tiles)' | FileCheck %s
// RUN: fp8moe-compile %s --sweep --optimize-layouts=false --emit=tensor | FileCheck %s
// RUN: not fp8moe-compile %s --sweep --emit=tensor --target=cpu 2>&1 | FileCheck %s --check-prefix=CONFLICT

// CONFLICT: the module is written for target 'sm_90a'
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {

// The original function keeps the model's choice or the given tile.
// CHECK-LABEL: func.func @rows(
// CHECK: fp8moe.dynamic_quantize %{{.*}} tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
      : tensor<?x64xf32> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
}
// CHECK-LABEL: func.func @"rows/0/two_pass,columns=4,threads=128"(
// CHECK: tiles [#fp8moe.two_pass<columns = 4, threads = 128>]
// CHECK-LABEL: func.func @"rows/0/two_pass,columns=8,threads=256"(
// CHECK: tiles [#fp8moe.two_pass<columns = 8, threads = 256>]

// Each variant changes the tile of one kernel.
// CHECK-LABEL: func.func @both(
// CHECK: tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
// CHECK: tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
// CHECK: func.func @"both/0/two_pass,columns=4,threads=128"(
// CHECK: tiles [#fp8moe.two_pass<columns = 4, threads = 128>]
// CHECK: tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
// CHECK: func.func @"both/1/two_pass,columns=32,threads=128"(
// CHECK: tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
// CHECK: tiles [#fp8moe.two_pass<columns = 32, threads = 128>]
func.func @both(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>)
    -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>, tensor<?x64xf8E4M3FN>, tensor<64xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 tiles [#fp8moe.two_pass<columns = 8, threads = 256>]
      : tensor<?x64xf32> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  %p, %r = fp8moe.dynamic_quantize %y along [0] rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x64xf32> -> tensor<?x64xf8E4M3FN>, tensor<64xf32>
  return %q, %s, %p, %r : tensor<?x64xf8E4M3FN>, tensor<?xf32>, tensor<?x64xf8E4M3FN>, tensor<64xf32>
}

// CHECK-NOT: views/
// CHECK-LABEL: func.func @views(
// CHECK-NOT: views/
func.func @views(%x: tensor<4x8xf32>) -> tensor<8x4xf32, #fp8moe.strided<[1, 0]>> {
  %t = fp8moe.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32, #fp8moe.strided<[1, 0]>>
  return %t : tensor<8x4xf32, #fp8moe.strided<[1, 0]>>
}
}
