// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --convert-fp8moe-to-gpu

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @flavour(%q: tensor<?x64xf8E4M3FN>, %s: tensor<?xf32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{'fp8moe.dequantize' from 'f8E4M3FN' (the hardware has the other flavour; use !fp8moe.e4m3 or !fp8moe.e5m2) is not supported on target gfx942}}
    %x = fp8moe.dequantize %q by %s along 1 direction quantize
        : tensor<?x64xf8E4M3FN>, tensor<?xf32> -> tensor<?x64xbf16>
    return %x : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rank(%q: tensor<2x3x4x64xf8E4M3FN>, %s: tensor<2x3x4xf32>) -> tensor<2x3x4x64xbf16> {
    // expected-error@+1 {{'fp8moe.dequantize' of a tensor of rank 4 (expected at most 3; merge dimensions with fp8moe.reshape) is not supported on target sm_90a}}
    %x = fp8moe.dequantize %q by %s along 3 direction quantize
        : tensor<2x3x4x64xf8E4M3FN>, tensor<2x3x4xf32> -> tensor<2x3x4x64xbf16>
    return %x : tensor<2x3x4x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @flavour_of_result(%x: tensor<?x64xbf16>, %s: tensor<?xf32>) -> tensor<?x64xf8E4M3FNUZ> {
    // expected-error@+1 {{'fp8moe.quantize' to 'f8E4M3FNUZ' (the hardware has the other flavour; use !fp8moe.e4m3 or !fp8moe.e5m2) is not supported on target sm_90a}}
    %q = fp8moe.quantize %x by %s along 1 : tensor<?x64xbf16>, tensor<?xf32> -> tensor<?x64xf8E4M3FNUZ>
    return %q : tensor<?x64xf8E4M3FNUZ>
  }
}

// -----

// MX data use the OCP encoding, which gfx942 lacks.
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @blocks(%q: tensor<?x64xf8E4M3FNUZ>, %s: tensor<?x2xf8E8M0FNU>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{'fp8moe.mx_dequantize' is not supported on target gfx942 yet; compile the function for sm_90a or sm_100a or gfx950 or 'cpu'}}
    %x = fp8moe.mx_dequantize %q by %s along 1 : tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU> -> tensor<?x64xbf16>
    return %x : tensor<?x64xbf16>
  }
}
