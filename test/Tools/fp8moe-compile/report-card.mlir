// --card changes the predicted times of the report, but neither the compiled code nor the manifest.

// RUN: fp8moe-compile %s --target=sm_90a --report -o %t/chip | FileCheck %s --check-prefix=H200
// RUN: fp8moe-compile %s --target=sm_90a --report --card=h100 -o %t/h100 | FileCheck %s --check-prefix=H100
// RUN: diff -r %t/chip %t/h100

// H200: target sm_90a (NVIDIA H200 (Hopper))
// H200: fp8moe.dynamic_quantize line {{[0-9]+}} 64.2 us
// H100: target sm_90a (NVIDIA H100 SXM (Hopper))
// H100: run and checked on H100 cards
// H100: fp8moe.dynamic_quantize line {{[0-9]+}} 88.5 us
func.func @rows(%x: tensor<16640x5120xbf16>) -> (tensor<16640x5120x!fp8moe.e4m3>, tensor<16640xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<16640x5120xbf16> -> tensor<16640x5120x!fp8moe.e4m3>, tensor<16640xf32>
  return %q, %s : tensor<16640x5120x!fp8moe.e4m3>, tensor<16640xf32>
}
