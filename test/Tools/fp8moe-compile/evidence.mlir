// RUN: rm -rf %t
// RUN: fp8moe-compile %s --target=cpu --target=sm_90a --target=sm_100a --target=gfx942 --target=gfx950 -o %t --report | FileCheck %s

// The report says for each target on what its results and predicted times are based.
// CHECK: {{^}}target cpu (
// CHECK-NEXT: {{^}}  the reference; no times are predicted{{$}}
// CHECK: {{^}}target sm_90a (
// CHECK-NEXT: {{^}}  run and checked on H100 and H200 cards; predicted times are those of a model fitted to an H200{{$}}
// CHECK: {{^}}target sm_100a (
// CHECK-NEXT: {{^}}  assembled by ptxas, never run; predicted times are those of an H200's model with figures from data sheets{{$}}
// CHECK: {{^}}target gfx942 (
// CHECK-NEXT: {{^}}  checked in an emulator, never run on a card; predicted times are those of an H200's model with figures from data sheets{{$}}
// CHECK: {{^}}target gfx950 (
// CHECK-NEXT: {{^}}  checked in an emulator, never run on a card; predicted times are those of an H200's model with figures from data sheets{{$}}
func.func @rowwise(%x: tensor<?x2048xbf16>) -> (tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
}
