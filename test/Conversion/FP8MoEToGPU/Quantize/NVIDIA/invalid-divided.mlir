// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)"

// No kernel with divisors takes every address.

#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @input(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>, %d: tensor<?xf32>)
      -> (tensor<?x64xf8E4M3FN, #padded>, tensor<8x64xf32>) {
    // expected-error@+1 {{'fp8moe.jagged_dynamic_quantize' with divisors expects its input at a multiple of 16 bytes on target sm_90a, found one that is only known to be at a multiple of 2; promise it by 'align = 16' in its layout, or compile the function for 'cpu'}}
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) divided(%d : tensor<?xf32>)
        along [0] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN, #padded>, tensor<8x64xf32>
    return %q, %s : tensor<?x64xf8E4M3FN, #padded>, tensor<8x64xf32>
  }
}

// -----

#rows = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rows(%x: tensor<?x1024xbf16, #rows>, %ends: tensor<8xi32>, %d0: tensor<?xf32>, %d1: tensor<8x1024xf32>)
      -> (tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN>) {
    // expected-error@+1 {{'fp8moe.jagged_dynamic_quantize' with divisors expects the data along rows at a multiple of 8 bytes on target sm_90a, found one that is only known to be at a multiple of 1; promise it by 'align = 8' in its layout}}
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>)
        divided(%d0, %d1 : tensor<?xf32>, tensor<8x1024xf32>) along [0, 1] rounding pow2
        : tensor<?x1024xbf16, #rows>
        -> tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN>, tensor<8x1024xf32>, tensor<?xf32>
    return %q#0, %q#1 : tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN>
  }
}
